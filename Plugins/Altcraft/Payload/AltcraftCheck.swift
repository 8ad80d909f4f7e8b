import Foundation
import ChaparCore

/// Finds values that a campaign's template cannot show, and overrides that its call does not take.
///
/// ``AltcraftBackend`` calls it before a notification is accepted. It reads the notification and the options only.
enum AltcraftCheck {
    /// Examines a notification for a call; without a call (no campaign) the overrides are not examined.
    static func examine(_ notification: PushNotification, for call: AltcraftCampaignOptions.Call?) -> PayloadCheck {
        let dropped: [(isUsed: Bool, field: String)] = [
            (notification.badge != nil, "badge"), (notification.sound != nil, "sound"),
            (notification.category != nil, "category"), (!notification.actions.isEmpty, "actions"),
            (notification.collapseID != nil, "collapse_id"), (notification.isSilent, "silent"),
        ]
        var check = PayloadCheck(
            warnings: dropped.filter(\.isUsed).map { _, field in
                Finding(
                    pointer: "#/content/\(field)",
                    code: "not_supported",
                    detail: "The template of the campaign decides about \(field); this value is dropped."
                )
            }
        )
        guard let call else { return check }
        for (name, value) in notification.overrides[AltcraftBackend.kind.rawValue] ?? JSONObject() {
            let pointer = "#/overrides/\(AltcraftBackend.kind.rawValue)/\(name.jsonPointerStep)"
            func fault(_ detail: String) {
                check.faults.append(Finding(pointer: pointer, code: "wrong_type", detail: detail))
            }
            guard let kind = call.overrides[name] else {
                let known = call.overrides.keys.sorted().joined(separator: ", ")
                let detail = "\(call.rawValue) takes \(known); this value is dropped."
                check.warnings.append(Finding(pointer: pointer, code: "not_supported", detail: detail))
                continue
            }
            if !kind.matches(value) { fault("\(name) must be \(kind.rawValue).") }
        }
        return check
    }
}

extension AltcraftCampaignOptions.Call {
    /// The type of value that a parameter holds.
    enum ParameterKind: String {
        case object = "an object"
        case list = "a list"
        case flag = "true or false"
        case number = "a whole number"
        case span =
            "{\"days\": …, \"hours\": …, \"minutes\": …}, whole numbers from 0 on, by which the start is delayed"

        func matches(_ value: JSONValue) -> Bool {
            switch self {
            case .object: value.objectValue != nil
            case .list: value.arrayValue != nil
            case .flag: value.boolValue != nil
            case .number: value.integerValue != nil
            case .span:
                value.objectValue.map { span in
                    !span.isEmpty
                        && span.allSatisfy { name, number in
                            ["days", "hours", "minutes"].contains(name) && number.integerValue.map { $0 >= 0 } ?? false
                        }
                } ?? false
            }
        }
    }
}
