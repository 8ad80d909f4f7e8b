import ChaparCore

/// The meanings of the status numbers in receipts.
enum HMSReceiptStatus {
    /// A row of the table.
    struct Meaning: Sendable, Hashable {
        var event: DeliveryReceipt.Event
        var reason: String
        var detail: String?
        var isDeath = false
    }

    static func meaning(of status: Int) -> Meaning {
        known[status] ?? Meaning(event: .note, reason: "other_status", detail: "Huawei reports the status \(status).")
    }

    /// Returns the sentence of a status, by the reason that stands for it.
    static func detail(of reason: String) -> String? { known.values.first { $0.reason == reason }?.detail }

    /// Source: Huawei, "Message receipt", statuses, read 2026-08.
    static let known: [Int: Meaning] = [
        0: Meaning(event: .delivered, reason: "delivered"),
        2: Meaning(event: .failed, reason: "app_not_installed", detail: "The app is not on the device.", isDeath: true),
        5: Meaning(event: .failed, reason: "token_replaced", detail: "The device has a newer token.", isDeath: true),
        6: Meaning(event: .failed, reason: "not_shown", detail: "The user has turned the app's notifications off."),
        10: Meaning(event: .failed, reason: "device_inactive", detail: "The device was not seen for 30 days."),
        14: Meaning(event: .note, reason: "other", detail: "Huawei gives no reason."),
        15: Meaning(event: .failed, reason: "overwritten", detail: "A newer message took its place, or 120 waited."),
        22: Meaning(event: .failed, reason: "user_mismatch", detail: "The device's user is another one."),
        27: Meaning(event: .note, reason: "cached", detail: "The app does not run; the device keeps the message."),
        31: Meaning(event: .failed, reason: "not_supported", detail: "The device does not support the message."),
        51: Meaning(event: .note, reason: "locked", detail: "The device was locked."),
        102: Meaning(event: .failed, reason: "daily_limit", detail: "The device got 3,000 messages of the app today."),
        144: Meaning(event: .failed, reason: "profile_mismatch", detail: "The profile is not on the device."),
        201: Meaning(event: .failed, reason: "controlled", detail: "Huawei keeps the app from sending to the device."),
        256: Meaning(
            event: .failed,
            reason: "frequency_limit",
            detail: "The device gets too many messages of the app."
        ),
    ]
}
