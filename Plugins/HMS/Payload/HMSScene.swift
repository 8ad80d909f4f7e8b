import Crypto
import Foundation
import ChaparCore

/// Messages of v3, Huawei's API for HarmonyOS 5 and later: a payload for one scene, which the header `push-type` names.
///
/// A notification that shows something is an alert (0), one that shows nothing a background message (6). Every other
/// scene (widgets, live views, calls) is the caller's, under `overrides.hms.harmony`. Source: Huawei, "Push Kit, REST
/// API, scenario-specific messages", read 2026-11; what of it is used stands in docs/platforms/HMSv3.md.
enum HMSScene {
    /// The member of `overrides.hms` that v3 alone reads: `push_type`, `payload` and `pushOptions`.
    static let overrides = "harmony"
    /// The scenes that v3 has.
    static let pushTypes: [Int64] = [0, 1, 2, 6, 7, 10]
    /// The categories of an alert; `PLAY_VOICE` is none, since Huawei takes it with push type 2 only.
    static let categories: Set<String> = [
        "IM", "VOIP", "MISS_CALL", "SUBSCRIPTION", "TRAVEL", "HEALTH", "WORK", "ACCOUNT", "EXPRESS", "FINANCE",
        "DEVICE_REMINDER", "MAIL", "MARKETING",
    ]
    private static let members = ["push_type", "payload", "pushOptions"]

    /// Returns the push type, and the members of the body without its target.
    static func make(
        _ request: PushRequest,
        language: String?,
        tag: String,
        options: HMSOptions,
        now: Date
    ) -> (pushType: Int64, tree: JSONObject) {
        let notification = request.notification
        var tree = JSONObject()
        if notification.isSilent {
            tree["payload"] = ["extraData": .string(JSONValue.object(notification.data).text)]
        } else {
            tree["payload"] = [
                "notification": .object(alert(notification, language: language, tag: tag, options: options))
            ]
        }
        var sending = JSONObject()
        sending["ttl"] = HMSPayloadTree.timeToLive(of: request, now: now).map { .integer($0) }
        if let receipts = options.receipts {
            sending["biTag"] = .string(String(decoding: tag.utf8.prefix(64), as: UTF8.self))
            sending["receiptId"] = receipts.id.map { .string($0) }
        }
        if !sending.isEmpty { tree["pushOptions"] = .object(sending) }
        var pushType: Int64 = notification.isSilent ? 6 : 0
        if let own = notification.overrides[HMSBackend.kind.rawValue]?[overrides]?.objectValue {
            if let type = own["push_type"]?.integerValue, type != pushType {
                // Another scene has a payload of its own, so the alert's is removed.
                pushType = type
                tree["payload"] = nil
            }
            var blocks = own
            blocks["push_type"] = nil
            tree = tree.merging(blocks)
        }
        return (pushType, tree)
    }

    private static func alert(
        _ notification: PushNotification,
        language: String?,
        tag: String,
        options: HMSOptions
    ) -> JSONObject {
        var alert: JSONObject = ["category": .string(category(notification.category) ?? options.defaultCategory)]
        let title = notification.title?.resolved(for: language)
        let body = notification.body?.resolved(for: language)
        // Both are mandatory.
        alert["title"] = (title ?? body).map { .string($0) }
        alert["body"] = (body ?? title).map { .string($0) }
        alert["image"] = notification.image.map { .string($0) }
        alert["clickAction"] = .object(clickAction(notification))
        alert["notifyId"] = .integer(notifyID(tag))
        if let badge = notification.badge { alert["badge"] = ["setNum": .integer(Int64(min(99, max(0, badge))))] }
        if let sound = notification.sound, sound != "default" { alert["sound"] = .string(sound) }
        return alert
    }

    /// Returns the category of Huawei's self-classification with this name; nil when there is none.
    static func category(_ name: String?) -> String? {
        name.map { $0.uppercased() }.flatMap { categories.contains($0) ? $0 : nil }
    }

    /// Returns the action of a tap: 0 opens the app, 1 a page of it by its `uri`.
    ///
    /// The app reads `data`, where a web address is `click_url`.
    private static func clickAction(_ notification: PushNotification) -> JSONObject {
        var action: JSONObject = ["actionType": 0]
        var data = notification.data
        if let url = notification.clickURL {
            if url.hasPrefix("https://") || url.hasPrefix("http://") {
                if data["click_url"] == nil { data["click_url"] = .string(url) }
            } else {
                (action["actionType"], action["uri"]) = (1, .string(url))
            }
        }
        if !data.isEmpty { action["data"] = .object(data) }
        return action
    }

    /// Returns the number by which a second copy replaces the first: 31 bits of the tag's hash.
    static func notifyID(_ tag: String) -> Int64 {
        SHA256.hash(data: Array(tag.utf8)).prefix(4).reduce(0) { $0 << 8 | Int64($1) } & 0x7FFF_FFFF
    }

    // MARK: Checks

    /// Finds everything that Huawei would refuse, except the size.
    static func faults(_ notification: PushNotification, _ pushType: Int64, _ tree: JSONObject) -> [Finding] {
        var faults: [Finding] = []
        let own = notification.overrides[HMSBackend.kind.rawValue]?[overrides]
        func fault(_ place: String, _ code: String, _ detail: String) {
            faults.append(HMSCheck.fault("/\(overrides)\(place)", code, detail))
        }
        if let own {
            guard let object = own.objectValue else {
                fault("", "not_an_object", "\(overrides) must be an object.")
                return faults
            }
            for (name, _) in object where !members.contains(name) {
                let isTarget = name == "target"
                fault(
                    "/\(name)",
                    isTarget ? "reserved_key" : "unknown_override",
                    isTarget ? "target is set by Chapar, from \"to\"." : "Allowed: \(members.joined(separator: ", "))."
                )
            }
        }
        if !pushTypes.contains(pushType) {
            let known = pushTypes.map(String.init).joined(separator: ", ")
            fault("/push_type", "bad_push_type", "Allowed: \(known).")
        }
        guard let payload = tree["payload"]?.objectValue else {
            fault("/payload", "missing", "A scene of your own needs its payload.")
            return faults
        }
        guard pushType == 0 else { return faults }
        let alert = payload["notification"]
        for name in ["title", "body"] where alert?[name]?.stringValue?.isEmpty ?? true {
            faults.append(
                Finding(
                    pointer: "#/content/\(name)",
                    code: "nothing_to_show",
                    detail: "There is no title or body. Set options.silent for a message that only wakes the app."
                )
            )
            break
        }
        if let image = alert?["image"]?.stringValue, !image.hasPrefix("https://") {
            let detail = "Huawei takes https addresses only."
            faults.append(Finding(pointer: "#/content/image", code: "not_https", detail: detail))
        }
        return faults
    }
}
