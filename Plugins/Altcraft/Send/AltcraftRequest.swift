internal import Foundation
package import ChaparCore

/// One request of the mobile endpoints: the only code with their paths, parameters and bodies.
///
/// Source: the code of altcraft/ios-sdk and altcraft/android-sdk, read 2026-08.
struct AltcraftRequest {
    let action: AltcraftAction
    let method: String
    let path: String
    let query: [(name: String, value: String)]
    let body: JSONObject?
    /// The form that is sent instead of a JSON body.
    var form: MultipartForm?

    /// Makes the request of a change of a subscription.
    static func subscription(
        _ status: SubscriptionStatus,
        token: DeviceToken,
        mode: String,
        at time: Int64,
        options: AltcraftChange,
        fields: JSONObject
    ) -> AltcraftRequest {
        let subscription: JSONObject = [
            "subscription_id": .string(token.value), "provider": .string(token.service.rawValue),
            "status": .string(status.rawValue), "fields": .object(fields),
            "cats": .array(options.categories.map(\.json)),
        ]
        var body: JSONObject = [
            "time": .integer(max(1, time)), "subscription_id": .string(token.value),
            "subscription": .object(subscription),
        ]
        if let fields = options.profileFields { body["profile_fields"] = .object(fields) }
        body["replace"] = .bool(options.replace)
        body["skip_triggers"] = .bool(options.skipTriggers)
        return AltcraftRequest(
            action: AltcraftAction(status),
            method: "POST",
            path: "/subscription/push/subscribe/",
            query: [
                ("provider", token.service.rawValue), ("matching_mode", mode), ("sync", String(options.sync)),
            ],
            body: body
        )
    }

    /// Makes the request of a subscription's move from one token to another.
    static func update(from old: DeviceToken?, to new: DeviceToken, isSync: Bool) -> AltcraftRequest {
        var query: [(String, String)] = [("provider", new.service.rawValue), ("sync", String(isSync))]
        if let old { query.append(("subscription_id", old.value)) }
        return AltcraftRequest(
            action: .update,
            method: "POST",
            path: "/subscription/push/update/",
            query: query,
            body: [
                "old_token": old.map { .string($0.value) } ?? .null,
                "old_provider": old.map { .string($0.service.rawValue) } ?? .null, "new_token": .string(new.value),
                "new_provider": .string(new.service.rawValue),
            ]
        )
    }

    /// Makes the request of a log-in or log-out.
    static func unsuspend(_ token: DeviceToken, mode: String) -> AltcraftRequest {
        AltcraftRequest(
            action: .unsuspend,
            method: "POST",
            path: "/subscription/push/unsuspend/",
            query: [
                ("provider", token.service.rawValue), ("matching_mode", mode), ("subscription_id", token.value),
            ],
            body: [
                "subscription": [
                    "subscription_id": .string(token.value), "provider": .string(token.service.rawValue),
                ], "replace": true,
            ]
        )
    }

    /// Makes the request of the status of a subscription: of a service, of a token, or the newest of all.
    static func status(service: TokenService?, token: String?, mode: String) -> AltcraftRequest {
        var query: [(String, String)] = []
        if let service { query.append(("provider", service.rawValue)) }
        query.append(("matching_mode", mode))
        if let token { query.append(("subscription_id", token)) }
        return AltcraftRequest(
            action: .status,
            method: "GET",
            path: "/subscription/push/status/",
            query: query,
            body: nil
        )
    }

    /// Makes the request of a delivery or an opening.
    static func event(_ event: PushEvent, uid: String, mode: String, at time: Int64) -> AltcraftRequest {
        AltcraftRequest(
            action: .event,
            method: "POST",
            path: "/event/push/" + event.altcraftName,
            query: [("matching_mode", mode)],
            body: ["time": .integer(max(1, time)), "smid": .string(uid)]
        )
    }

    /// Makes the request of an event of the app's own.
    static func mobile(_ event: AltcraftMobileEvent, at time: Int64, zone: Int) -> AltcraftRequest {
        AltcraftRequest(
            action: .mobile,
            method: "POST",
            path: "/event/post",
            query: [("i", event.pixel), ("tr", "px"), ("t", "open"), ("v", "2")],
            body: nil,
            form: MultipartForm(parts: event.parts(at: time, zone: zone))
        )
    }

    /// Makes the request of a change of profile fields.
    static func profile(_ fields: JSONObject, skipTriggers: Bool) -> AltcraftRequest {
        AltcraftRequest(
            action: .profile,
            method: "POST",
            path: "/profile/update",
            query: [],
            body: ["profile_fields": .object(fields), "skip_triggers": .bool(skipTriggers)]
        )
    }

    /// Returns the path with its query, under a base address.
    func target(under base: HTTPBaseURL) -> String {
        let pairs = query.map { "\($0.name)=\(FormEncoding.encode($0.value))" }
        return base.path(path) + (pairs.isEmpty ? "" : "?" + pairs.joined(separator: "&"))
    }
}

extension AltcraftAction {
    /// Makes the action that changes a subscription to a status.
    package init(_ status: SubscriptionStatus) {
        switch status {
        case .subscribed: self = .subscribe
        case .suspended: self = .suspend
        case .unsubscribed: self = .unsubscribe
        }
    }
}

extension PushEvent {
    /// Altcraft's word.
    package var altcraftName: String {
        switch self {
        case .delivered: "delivery"
        case .opened: "open"
        }
    }
}
