public import ChaparCore

/// The topics of an app: which devices are in them.
///
/// Android apps only; Huawei refuses the tokens of others. Source: Huawei, "Topic management", read 2026-08.
public struct HMSTopics: TopicManager {
    /// The most tokens in one call.
    public static let batchLimit = 1000

    let appID: String
    let client: HMSClient

    /// Those of Android devices.
    public var services: [TokenService] { [.androidHuawei] }

    /// Adds devices to a topic: any number, an outcome for each, in order.
    ///
    /// Throws when the first call fails as a whole: a bad name, no right, a platform in trouble. After that the rest is
    /// ``TokenOutcome/failed(_:)``.
    public func subscribe(_ tokens: [DeviceToken], to topic: String) async throws(PushError) -> [TokenOutcome] {
        try await change("subscribe", tokens, topic)
    }

    /// Removes devices from a topic: any number, an outcome for each, in order.
    ///
    /// Throws as ``subscribe(_:to:)``.
    public func unsubscribe(_ tokens: [DeviceToken], from topic: String) async throws(PushError) -> [TokenOutcome] {
        try await change("unsubscribe", tokens, topic)
    }

    /// The topics a device is in; none for a token that Huawei does not know, since it does not say so.
    public func topics(of token: DeviceToken) async throws(PushError) -> [TopicMembership]? {
        guard token.service == .androidHuawei else { throw Self.notAndroid }
        let (answer, body) = try await client.call("/v1/\(appID)/topic:list", ["token": .string(token.value)])
        guard answer.code == "80000000" else { throw HMSClient.error(answer) }
        return (body["topics"]?.arrayValue ?? []).compactMap { topic in
            topic["name"]?.stringValue.map { TopicMembership(name: $0, since: topic["addDate"]?.stringValue) }
        }
    }

    private func change(
        _ verb: String,
        _ tokens: [DeviceToken],
        _ topic: String
    ) async throws(PushError) -> [TokenOutcome] {
        guard Self.isName(topic) else {
            throw PushError(.invalidRequest, "\"\(topic.prefix(80))\" is not a topic's name", reason: "bad_topic")
        }
        guard tokens.allSatisfy({ $0.service == .androidHuawei }) else { throw Self.notAndroid }
        var outcomes: [TokenOutcome] = []
        for start in stride(from: 0, to: tokens.count, by: Self.batchLimit) {
            let part = tokens[start..<min(tokens.count, start + Self.batchLimit)]
            let body: JSONValue = [
                "topic": .string(topic), "tokenArray": .array(part.map { .string($0.value) }),
            ]
            do throws(PushError) {
                let wrong = try await changeOnce("/v1/\(appID)/topic:\(verb)", body)
                outcomes += part.indices.map { wrong[$0 - start].map { .refused($0) } ?? .done }
            } catch {
                if start == 0 { throw error }
                // A call that fails as a whole would fail for the next thousand tokens too.
                outcomes += Array(repeating: .failed(error), count: tokens.count - start)
                break
            }
        }
        return outcomes
    }

    private func changeOnce(_ path: String, _ body: JSONValue) async throws(PushError) -> [Int: String] {
        // Other codes of the family are worth two more tries; what was added already stays added.
        for _ in 0..<2 {
            let (answer, result) = try await client.call(path, body)
            if answer.code.map(HMSTopicCodes.isWorthATry) ?? false { continue }
            return try Self.read(answer, result)
        }
        let (answer, result) = try await client.call(path, body)
        return try Self.read(answer, result)
    }

    private static func read(_ answer: HMSAnswer, _ body: JSONValue) throws(PushError) -> [Int: String] {
        guard answer.code == "80000000" || answer.code == "82000010" else { throw HMSClient.error(answer) }
        var wrong: [Int: String] = [:]
        for error in body["errors"]?.arrayValue ?? [] {
            guard let place = HMSAnswer.count(error["index"]) else { continue }
            wrong[place] = error["reason"]?.stringValue ?? "refused"
        }
        return wrong
    }

    private static let notAndroid = PushError(
        .unsupported,
        "Huawei's topics are for Android apps: tokens of android-huawei only",
        reason: "not_android"
    )

    /// Whether a text can be a topic's name: 1 to 900 of the characters that a URL leaves alone, `%`, and Chinese ones.
    static func isName(_ text: String) -> Bool {
        (1...900).contains(text.unicodeScalars.count)
            && text.unicodeScalars.allSatisfy {
                switch $0 {
                case "a"..."z", "A"..."Z", "0"..."9", "-", "_", ".", "~", "%": true
                default: $0.properties.isIdeographic
                }
            }
    }

    /// Whom a topic recipient means: a name, or an expression such as `'a' in topics || 'b' in topics`.
    static func target(_ text: String) -> HMSBatchRequest.Target? {
        if isName(text) { return .topic(text) }
        guard text.contains("' in topics"), text.utf8.count <= 4096 else { return nil }
        let isBalanced = text.reduce(into: (depth: 0, isFine: true)) { state, character in
            if character == "(" { state.depth += 1 }
            if character == ")" { state.depth -= 1 }
            if state.depth < 0 { state.isFine = false }
        }
        return isBalanced.isFine && isBalanced.depth == 0 ? .condition(text) : nil
    }
}

/// The codes of the topic calls.
enum HMSTopicCodes {
    static func detail(_ code: String) -> String? { known[code] }
    static func isConfiguration(_ code: String) -> Bool { code == "82000012" || code == "82000013" }
    /// Whether a code of the family is unknown, and the call may work the next time.
    static func isWorthATry(_ code: String) -> Bool { code.hasPrefix("82") && known[code] == nil }

    private static let known: [String: String] = [
        "82000007": "The topic's name is wrong.", "82000008": "The list of tokens is wrong.",
        "82000009": "The device is in 2,000 topics, which is the most.", "82000010": "Some tokens are wrong.",
        "82000011": "The token is missing. This is a fault of Chapar.",
        "82000012": "The data storage location is not set: set it in AppGallery Connect.",
        "82000013": "The data storage location is not supported: change it in AppGallery Connect.",
    ]
}
