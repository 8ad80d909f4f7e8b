public import ChaparCore

/// The topics of an app, with their devices.
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

    /// Returns the topics of a device.
    ///
    /// A token that Huawei does not know has none, since Huawei's answer does not distinguish it.
    public func topics(of token: DeviceToken) async throws(PushError) -> [TopicMembership]? {
        guard token.service == .androidHuawei else { throw Self.notAndroid }
        let (answer, body) = try await client.call("/v1/\(appID)/topic:list", ["token": .string(token.value)])
        guard answer.code == "80000000" else { throw HMSRejections.error(answer) }
        return (body["topics"]?.arrayValue ?? []).compactMap { topic in
            topic["name"]?.stringValue.map { TopicMembership(name: $0, since: topic["addDate"]?.stringValue) }
        }
    }

    private func change(
        _ verb: String,
        _ tokens: [DeviceToken],
        _ topic: String
    ) async throws(PushError) -> [TokenOutcome] {
        guard HMSTarget.isName(topic) else {
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
                // If a call fails as a whole, the call for the next thousand tokens would fail too.
                outcomes += Array(repeating: .failed(error), count: tokens.count - start)
                break
            }
        }
        return outcomes
    }

    private func changeOnce(_ path: String, _ body: JSONValue) async throws(PushError) -> [Int: String] {
        // Unknown codes of the family are retried up to two times; tokens that were added already stay added.
        for _ in 0..<2 {
            let (answer, result) = try await client.call(path, body)
            if answer.code.map(HMSTopicCodes.isWorthATry) ?? false { continue }
            return try Self.read(answer, result)
        }
        let (answer, result) = try await client.call(path, body)
        return try Self.read(answer, result)
    }

    private static func read(_ answer: HMSAnswer, _ body: JSONValue) throws(PushError) -> [Int: String] {
        guard answer.code == "80000000" || answer.code == "82000010" else { throw HMSRejections.error(answer) }
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
}
