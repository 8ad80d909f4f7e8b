internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// Checks the header and body of a v3 send against Huawei's reference.
///
/// Written from the reference, "REST API, scenario-specific messages", read 2026-11, and not from the plugin. Payloads
/// of scenes other than alerts and background messages are not checked.
enum HMSSceneRules {
    private static let pushTypes: Set<Int> = [0, 1, 2, 6, 7, 10]
    private static let categories: Set<String> = [
        "IM", "VOIP", "MISS_CALL", "SUBSCRIPTION", "TRAVEL", "HEALTH", "WORK", "ACCOUNT", "EXPRESS", "FINANCE",
        "DEVICE_REMINDER", "MAIL", "MARKETING", "PLAY_VOICE",
    ]

    static func read(_ request: SandboxRequest) throws(HMSCode) -> (tokens: [String], HMSMessageRules.Accepted) {
        guard let type = request.header("push-type").flatMap({ Int($0) }), pushTypes.contains(type) else {
            throw .parameter("push-type")
        }
        guard var root = (try? JSONValue(parsing: request.body))?.objectValue else { throw .structure("not JSON") }
        for (name, _) in root where !["payload", "pushOptions", "target"].contains(name) { throw .structure(name) }
        guard let payload = root["payload"], payload.objectValue != nil else { throw .payload("it is missing") }
        guard let list = root["target"]?["token"]?.arrayValue else { throw .structure("target.token") }
        let tokens = list.compactMap(\.stringValue).filter { !$0.isEmpty }
        // A widget is refreshed one device at a time.
        guard (1...(type == 1 ? 1 : 1000)).contains(tokens.count), tokens.count == list.count else { throw .tokenCount }
        let options = root["pushOptions"]
        try check(options)
        if options?["testMessage"] == true, tokens.count > 10 {
            throw HMSCode("80300030", "When send test message, token count exceed limit.")
        }
        switch type {
        case 0: try check(alert: payload["notification"])
        case 6: guard payload["extraData"]?.stringValue != nil else { throw .payload("extraData is a text") }
        default: break
        }
        root["target"] = nil
        guard JSONValue.object(root).bytes.count <= 4096 else { throw .tooLarge }
        root["push_type"] = .integer(Int64(type))
        let accepted = HMSMessageRules.Accepted(
            tokens: tokens,
            audience: nil,
            isValidation: false,
            message: root,
            tag: payload["notification"]?["notifyId"]?.integerValue.map(String.init),
            biTag: options?["biTag"]?.stringValue
        )
        return (tokens, accepted)
    }

    /// A request to take a message back.
    struct Revocation {
        var pushType: Int64
        var notifyID: Int64
        var tokens: [String]
    }

    /// Checks the header and body of a revocation, by "REST API, message revocation", read 2026-11.
    static func revocation(_ request: SandboxRequest) throws(HMSCode) -> Revocation {
        guard let type = request.header("push-type").flatMap({ Int64($0) }), type == 0 || type == 2 else {
            throw .payload("The header does not contain valid push-type")
        }
        guard var root = (try? JSONValue(parsing: request.body))?.objectValue else { throw .structure("not JSON") }
        for (name, _) in root where !["notifyId", "token"].contains(name) { throw .structure(name) }
        guard let id = root["notifyId"]?.integerValue, (0...2_147_483_647).contains(id) else {
            throw .parameter("notifyId")
        }
        guard let list = root["token"]?.arrayValue else { throw .structure("token") }
        let tokens = list.compactMap(\.stringValue).filter { !$0.isEmpty }
        guard (1...1000).contains(list.count) else { throw .tokenCount }
        guard tokens.count == list.count else { throw .parameter("token") }
        root["token"] = nil
        guard JSONValue.object(root).bytes.count <= 4096 else { throw .tooLarge }
        return Revocation(pushType: type, notifyID: id, tokens: tokens)
    }

    private static func check(_ options: JSONValue?) throws(HMSCode) {
        guard let options else { return }
        guard options.objectValue != nil else { throw .parameter("pushOptions") }
        if let ttl = options["ttl"] {
            guard let seconds = ttl.integerValue, seconds <= 1_296_000 else { throw .parameter("pushOptions.ttl") }
            guard seconds > 0 else { throw HMSCode("80100004", "Illegal expire time.") }
        }
        if let tag = options["biTag"], tag.stringValue.map({ $0.utf8.count > 64 }) ?? true {
            throw .parameter("pushOptions.biTag")
        }
        if let key = options["collapseKey"], !(-1...100).contains(key.integerValue ?? -2) {
            throw .parameter("pushOptions.collapseKey")
        }
        if let flag = options["testMessage"], flag.boolValue == nil { throw .parameter("pushOptions.testMessage") }
    }

    private static func check(alert: JSONValue?) throws(HMSCode) {
        guard let alert, alert.objectValue != nil else { throw .payload("notification is missing") }
        guard categories.contains(alert["category"]?.stringValue ?? "") else {
            throw .payload("category")
        }
        for name in ["title", "body"] where alert[name]?.stringValue?.isEmpty ?? true {
            throw .payload("\(name)")
        }
        if let image = alert["image"], !(image.stringValue?.hasPrefix("https://") ?? false) {
            throw .payload("image")
        }
        let action = alert["clickAction"]
        switch action?["actionType"]?.integerValue {
        case 0?: break
        case 1? where action?["uri"]?.stringValue != nil || action?["action"]?.stringValue != nil: break
        default: throw .payload("clickAction")
        }
        if let data = action?["data"], data.objectValue == nil {
            throw .payload("clickAction.data")
        }
        if let id = alert["notifyId"], !(-1...2_147_483_647).contains(id.integerValue ?? -2) {
            throw .payload("notifyId")
        }
        if let number = alert["badge"]?["setNum"], !(0...99).contains(number.integerValue ?? -1) {
            throw .payload("badge.setNum")
        }
    }
}
