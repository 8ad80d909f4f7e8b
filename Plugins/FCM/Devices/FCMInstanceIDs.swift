internal import Foundation
public import ChaparCore

/// Google's Instance ID service: looks tokens up, adds them to topics and removes them, and makes FCM tokens of APNs
/// tokens.
///
/// For code that manages tokens and topics; sending needs none of it. Source: Google, "Instance ID server reference",
/// read 2026-08.
public struct FCMInstanceIDs: TopicManager, TokenDirectory {
    /// The most tokens that Google takes in one call for topics.
    public static let topicBatch = 1000
    /// The most tokens that Google takes in one import.
    public static let importBatch = 100
    private static let attempts = 3

    let endpoint: HTTPEndpoint
    let pool: any HTTPPool
    let auth: any AuthStrategy
    let time: any TimeSource

    /// Every service whose tokens Google gives.
    public var services: [TokenService] { [.androidFirebase, .iOSFirebase, .webFirebase] }
    /// Apple's own tokens.
    public var importedService: TokenService { .iOSAPNs }

    /// Looks a token up; nil when Google does not know it.
    public func details(of token: DeviceToken) async throws(PushError) -> TokenDetails? {
        // Servers resolve `.` and `..` as steps of the path, so they cannot be tokens.
        guard ![".", ".."].contains(Self.bare(token.value)) else { return nil }
        let path = "/iid/info/\(FormEncoding.encode(Self.bare(token.value), keeping: ":"))?details=true"
        let answer = try await answer("GET", path, body: [])
        let object = (try? JSONValue(parsing: answer.body))?.objectValue
        // Only Google's own 404 is about the token; any other comes from a proxy or a wrong address.
        if answer.status == 404, object?["error"] != nil { return nil }
        if answer.status == 400, object?["error"] != nil { return nil }
        guard answer.status == 200 else { throw FCMRejections.error(answer, now: time.now) }
        guard let object, let application = object["application"]?.stringValue else {
            throw PushError(.badAnswer, "the Instance ID service gave an answer that cannot be read")
        }
        return TokenDetails(
            application: application,
            project: object["authorizedEntity"]?.stringValue,
            platform: object["platform"]?.stringValue,
            applicationVersion: object["applicationVersion"]?.stringValue,
            topics: object["rel"]?["topics"]?.objectValue?.map { name, topic in
                TopicMembership(name: name, since: topic["addDate"]?.stringValue)
            } ?? []
        )
    }

    /// Returns the topics that a token has joined; nil when Google does not know the token.
    public func topics(of token: DeviceToken) async throws(PushError) -> [TopicMembership]? {
        try await details(of: token)?.topics
    }

    /// Adds tokens to a topic: any number, with an outcome for each, in order.
    ///
    /// Throws when the name cannot be a topic's.
    public func subscribe(_ tokens: [DeviceToken], to topic: String) async throws(PushError) -> [TokenOutcome] {
        try await change(tokens, topic, "/iid/v1:batchAdd")
    }

    /// Removes tokens from a topic: any number, with an outcome for each, in order.
    ///
    /// Throws when the name cannot be a topic's.
    public func unsubscribe(_ tokens: [DeviceToken], from topic: String) async throws(PushError) -> [TokenOutcome] {
        try await change(tokens, topic, "/iid/v1:batchRemove")
    }

    /// Makes FCM tokens of APNs tokens, to move an app from one to the other: any number, an outcome for each, in
    /// order.
    ///
    /// - Parameters:
    ///   - tokens: Tokens of `ios-apns`.
    ///   - application: The app's bundle id.
    ///   - environment: `development` for tokens of builds run from Xcode.
    /// - Returns: An outcome for each token, in order.
    public func importTokens(
        _ tokens: [DeviceToken],
        application: String,
        environment: TokenEnvironment = .production
    ) async -> [TokenImport] {
        let silence = TokenImport.failed(PushError(.unavailable, "Google said nothing about this token"))
        return await inRounds(tokens, Self.importBatch, silence) { (tokens, outcomes) throws(PushError) in
            let body: JSONValue = [
                "application": .string(application), "sandbox": .bool(environment == .development),
                "apns_tokens": .array(tokens.map { .string($0.value) }),
            ]
            for item in try await results("/iid/v1:batchImport", body) {
                // Results are matched by token, since Google does not promise an order.
                guard let index = tokens.firstIndex(where: { $0.value == item["apns_token"]?.stringValue }) else {
                    continue
                }
                let status = item["status"]?.stringValue ?? ""
                if status == "OK", let token = item["registration_token"]?.stringValue, !token.isEmpty {
                    outcomes[index] = .imported(DeviceToken(token, service: .iOSFirebase))
                } else if status == "INTERNAL" || status == "Internal Server Error" {
                    outcomes[index] = .failed(PushError(.unavailable, "Google could not import the token"))
                } else {
                    outcomes[index] = .refused(status.asReasonLabel ?? "UNKNOWN")
                }
            }
        } fails: { error in
            .failed(error)
        } isOpen: { outcome in
            if case .failed(let error) = outcome { error.code == .unavailable } else { false }
        }
    }

    // MARK: Topics

    private func change(
        _ tokens: [DeviceToken],
        _ topic: String,
        _ path: String
    ) async throws(PushError) -> [TokenOutcome] {
        guard let name = FCMTopic.name(topic) else {
            throw PushError(.invalidRequest, "A topic's name holds a-z, A-Z, 0-9, - _ . ~ % only.")
        }
        let silence = TokenOutcome.failed(PushError(.unavailable, "Google said nothing about this token"))
        return await inRounds(tokens, Self.topicBatch, silence) { (tokens, outcomes) throws(PushError) in
            let body: JSONValue = [
                "to": .string("/topics/\(name)"),
                "registration_tokens": .array(tokens.map { .string(Self.bare($0.value)) }),
            ]
            for (index, item) in try await results(path, body).prefix(tokens.count).enumerated() {
                outcomes[index] = FCMRejections.tokenOutcome(item["error"]?.stringValue)
            }
        } fails: { error in
            .failed(error)
        } isOpen: { outcome in
            if case .failed(let error) = outcome { error.code == .unavailable } else { false }
        }
    }

    /// Runs calls for many tokens in batches, and repeats them for the items that have no result.
    private func inRounds<Outcome: Sendable>(
        _ tokens: [DeviceToken],
        _ size: Int,
        _ silence: Outcome,
        _ call: ([DeviceToken], inout [Outcome]) async throws(PushError) -> Void,
        fails: (PushError) -> Outcome,
        isOpen: (Outcome) -> Bool
    ) async -> [Outcome] {
        var outcomes = Array(repeating: silence, count: tokens.count)
        var open = Array(tokens.indices)
        for attempt in 1...Self.attempts where !open.isEmpty {
            for start in stride(from: 0, to: open.count, by: size) {
                let places = Array(open[start..<min(open.count, start + size)])
                var answers = Array(repeating: silence, count: places.count)
                do throws(PushError) {
                    try await call(places.map { tokens[$0] }, &answers)
                } catch {
                    answers = Array(repeating: fails(error), count: places.count)
                }
                for (place, answer) in zip(places, answers) { outcomes[place] = answer }
            }
            open = open.filter { isOpen(outcomes[$0]) }
            guard attempt < Self.attempts, !open.isEmpty else { break }
            do { try await time.sleep(for: .seconds(attempt)) } catch { break }
        }
        return outcomes
    }

    // MARK: Calls

    private func results(_ path: String, _ body: JSONValue) async throws(PushError) -> [JSONValue] {
        let answer = try await answer("POST", path, body: body.bytes)
        guard answer.status == 200 else { throw FCMRejections.error(answer, now: time.now) }
        guard let results = (try? JSONValue(parsing: answer.body))?["results"]?.arrayValue else {
            throw PushError(.unavailable, "the Instance ID service gave an answer that cannot be read")
        }
        return results
    }

    /// Makes one call; a refused access token is replaced once.
    private func answer(_ method: String, _ path: String, body: [UInt8]) async throws(PushError) -> HTTPAnswer {
        let first = try await auth.credential(for: endpoint)
        let answer = try await send(method, path, body, first)
        guard answer.status == 401, case .retry = await auth.refused(first, status: 401, reason: nil) else {
            return answer
        }
        return try await send(method, path, body, try await auth.credential(for: endpoint))
    }

    private func send(
        _ method: String,
        _ path: String,
        _ body: [UInt8],
        _ credential: AuthCredential
    ) async throws(PushError) -> HTTPAnswer {
        var headers = credential.httpHeaders + [HTTPHeader("access_token_auth", "true")]
        if !body.isEmpty { headers.append(HTTPHeader("content-type", "application/json")) }
        do throws(HTTPFailure) {
            return try await pool.send(
                HTTPCall(HTTPCallTemplate(method: method, headers: headers), path: path, body: body)
            )
        } catch {
            throw PushError(.unavailable, "the Instance ID service gave no answer: \(error.detail)")
        }
    }

    /// Returns a token without the mark of an installation ID.
    private static func bare(_ value: String) -> String {
        value.utf8.starts(with: "fid:".utf8) ? String(value.dropFirst(4)) : value
    }
}
