import Foundation
public import ChaparCore
import Synchronization

/// The broadcast channels of an app, through which one push updates the Live Activities of many.
///
/// Programs create, read, delete and list them here; sending to one is an ordinary send to `Recipient.platformID`.
/// Source: Apple, "Sending channel management requests to APNs", read 2026-08.
public final class APNsChannels: ChannelManager {
    let pool: any HTTPPool
    private let tokens: APNsTokenSource
    private let bundleID: String
    private let time: any TimeSource
    private let storages = Mutex<[String: ChannelStorage]>([:])

    init(pool: any HTTPPool, tokens: APNsTokenSource, bundleID: String, time: any TimeSource) {
        self.pool = pool
        self.tokens = tokens
        self.bundleID = bundleID
        self.time = time
    }

    /// Makes a channel and returns its id, which is valid in this environment only.
    ///
    /// The newest message is kept for 8 hours at most. Where nothing is kept, pushes must have expiration 0, and more
    /// of them are allowed.
    public func create(storage: ChannelStorage) async throws(PushError) -> String {
        var body = JSONWriter(capacity: 64)
        body.beginObject()
        body.field("message-storage-policy", storage == .none ? 0 : 1)
        body.field("push-type", "LiveActivity")
        body.endObject()
        let answer: HTTPAnswer
        do throws(PushError) {
            answer = try await call("POST", "channels", body: body.bytes)
        } catch  where error.reason == "CannotCreateChannelConfig" {
            let count = (try? await list().count).map { " (\($0) now)" } ?? ""
            throw PushError(
                .invalidRequest,
                "there are as many channels as Apple allows\(count): delete some",
                reason: error.reason
            )
        }
        guard let id = answer.header("apns-channel-id") else {
            throw PushError(.badAnswer, "Apple made a channel but did not tell its id")
        }
        remember(id, storage)
        return id
    }

    /// Returns the storage policy of a channel; nil when there is no such channel in this environment.
    public func read(_ id: String) async throws(PushError) -> ChannelStorage? {
        guard let answer = try await existing("GET", id) else { return nil }
        let storage: ChannelStorage
        switch (try? JSONValue(parsing: answer.body))?["message-storage-policy"]?.integerValue {
        case 0: storage = .none
        case 1: storage = .newest
        default: throw PushError(.badAnswer, "Apple's description of the channel cannot be read")
        }
        remember(id, storage)
        return storage
    }

    /// Deletes a channel; false when there is no such channel in this environment.
    @discardableResult
    public func delete(_ id: String) async throws(PushError) -> Bool {
        let answer = try await existing("DELETE", id)
        storages.withLock { $0[id] = nil }
        return answer != nil
    }

    /// Returns the ids of all channels of the app.
    public func list() async throws(PushError) -> [String] {
        let answer = try await call("GET", "all-channels")
        guard let value = try? JSONValue(parsing: answer.body), let channels = value["channels"]?.arrayValue else {
            throw PushError(.badAnswer, "Apple's list of channels cannot be read")
        }
        return channels.compactMap(\.stringValue)
    }

    /// Returns the storage policy of a channel that was made or read here; nil for any other.
    func knownStorage(of id: String) -> ChannelStorage? { storages.withLock { $0[id] } }

    private func remember(_ id: String, _ storage: ChannelStorage) {
        storages.withLock { storages in
            if storages.count >= 10_000 { storages.removeAll() }  // As many as Apple allows an app.
            storages[id] = storage
        }
    }

    // MARK: Calls

    /// Makes a call about one channel; nil when Apple does not know the channel.
    private func existing(_ method: String, _ id: String) async throws(PushError) -> HTTPAnswer? {
        do throws(PushError) {
            return try await call(method, "channels", channel: id)
        } catch  where error.reason == "ChannelNotRegistered" || error.reason == "BadChannelId" {
            storages.withLock { $0[id] = nil }
            return nil
        }
    }

    private func call(
        _ method: String,
        _ path: String,
        channel: String? = nil,
        body: [UInt8] = []
    ) async throws(PushError) -> HTTPAnswer {
        var headers: [HTTPHeader] = []
        if let channel {
            guard APNsPath.isChannel(channel) else {
                throw PushError(.invalidRequest, "not a channel id: it is base64")
            }
            headers.append(HTTPHeader("apns-channel-id", channel, .literal))
        }
        headers.append(HTTPHeader("apns-request-id", MessageID.random().description, .literal))
        let call = HTTPCall(
            HTTPCallTemplate(method: method),
            path: "/1/apps/\(bundleID)/\(path)",
            headers: headers,
            body: body
        )
        for isSecondTry in [false, true] {
            await tokens.prepare()
            let answer: HTTPAnswer
            do throws(HTTPFailure) {
                answer = try await pool.send(call)
            } catch {
                if method == "POST", error.stage == .unknown {
                    let detail = "\(error.detail): the channel may be there; look at the list before another try"
                    throw PushError(.unknownOutcome, detail)
                }
                throw PushError(error.cause == .credentials ? .credentialsRefused : .unavailable, error.detail)
            }
            if (200..<300).contains(answer.status) { return answer }
            let context = APNsRejections.Context(
                started: time.now,
                isOwnTopic: true,
                isBroadcast: true,
                isSecondTry: isSecondTry
            )
            if case .final(let outcome) = APNsRejections.verdict(on: answer, context) { throw Self.error(outcome) }
        }
        throw PushError(.credentialsRefused, APNsRejections.clockHint)  // The second verdict is always final.
    }

    private static func error(_ outcome: DeliveryOutcome) -> PushError {
        guard case .refused(let refusal) = outcome else {
            return PushError(.badAnswer, "Apple's answer cannot be read")
        }
        let message = refusal.detail ?? refusal.reason
        switch refusal.advice {
        case .never: return PushError(.invalidRequest, message, reason: refusal.reason)
        case .parkBackend: return PushError(.credentialsRefused, message, reason: refusal.reason)
        case .slowRecipient where refusal.kind == .account:  // Broadcasts are not allowed.
            return PushError(.credentialsRefused, message, reason: refusal.reason)
        case .retry(let after): return PushError(.unavailable, message, reason: refusal.reason, retryAfter: after)
        case .slowRecipient(let after), .slowBackend(let after):
            return PushError(.rateLimited, message, reason: refusal.reason, retryAfter: after)
        }
    }
}
