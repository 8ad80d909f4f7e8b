import Foundation
import ChaparCore

/// The `apns` block of a message, which Huawei passes on to Apple's devices.
enum HMSAppleBlock {
    static func make(
        _ request: PushRequest,
        language: String?,
        tag: String,
        userType: HMSOptions.TargetUserType,
        now: Date
    ) -> JSONObject {
        let notification = request.notification
        var headers: JSONObject = [
            "apns-push-type": notification.isSilent ? "background" : "alert",
            "apns-priority": notification.isSilent || notification.priority == .normal ? "5" : "10",
        ]
        if !notification.isSilent { headers["apns-collapse-id"] = .string(tag) }
        headers["apns-expiration"] = expiration(of: request, now: now).map { .string($0) }
        return [
            "headers": .object(headers), "payload": .object(payload(notification, language)),
            "hms_options": ["target_user_type": .integer(userType.number)],
        ]
    }

    private static func payload(_ notification: PushNotification, _ language: String?) -> JSONObject {
        var aps = JSONObject()
        if notification.isSilent {
            aps["content-available"] = 1
        } else {
            var alert = JSONObject()
            alert["title"] = notification.title.map { .string($0.resolved(for: language)) }
            alert["subtitle"] = notification.subtitle.map { .string($0.resolved(for: language)) }
            alert["body"] = notification.body.map { .string($0.resolved(for: language)) }
            if !alert.isEmpty { aps["alert"] = .object(alert) }
            aps["badge"] = notification.badge.map { .integer(Int64($0)) }
            aps["sound"] = notification.sound.map { .string($0) }
            aps["category"] = notification.category.map { .string($0) }
            if notification.image != nil { aps["mutable-content"] = 1 }
        }
        var payload: JSONObject = ["aps": .object(aps)]
        for (name, value) in notification.data where name != "aps" { payload[name] = value }
        var extras = JSONObject()
        extras["image"] = notification.image.map { .string($0) }
        extras["click_url"] = notification.clickURL.map { .string($0) }
        if !extras.isEmpty, !notification.isSilent { payload["chapar"] = .object(extras) }
        return payload
    }

    private static func expiration(of request: PushRequest, now: Date) -> String? {
        switch request.expiration {
        case .immediately?: return "0"
        case .at(let end)?: return String(end)
        case nil:
            guard let span = request.notification.timeToLive else { return nil }
            return span <= .zero
                ? "0" : String(Int64(clamping: now.timeIntervalSince1970).adding(clamping: span.components.seconds))
        }
    }
}

extension HMSOptions.TargetUserType {
    /// Huawei's number for it.
    var number: Int64 {
        switch self {
        case .test: 1
        case .formal: 2
        case .voip: 3
        }
    }
}
