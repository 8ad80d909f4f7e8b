internal import Foundation
internal import Logging
import ChaparCore
internal import Synchronization

/// The parts that a device's request and its events have in common: the action, the device, the attempt.
///
/// ``AltcraftDevices`` makes one for each call of ``AltcraftClient``.
struct AltcraftRequestContext: Sendable {
    var action: AltcraftAction
    var device: DeviceRecord
    var attempt: OutboxAttempt
    /// Further values of the events, such as `uid` and `type`.
    var value = JSONObject()
    /// The event's type or name that the messages of events add, such as `open`.
    var remark: String?
    /// Texts that must not be in a message.
    var tokens: [String] = []
    /// The place for the answer, also that of a refusal.
    var answerSlot: AnswerSlot?
}

/// Holds the answer to a request whose failure is thrown.
package final class AnswerSlot: Sendable {
    private let value = Mutex<ResponseWithHttp?>(nil)

    package init() {}

    /// The last answer; nil when there was none.
    package var answer: ResponseWithHttp? {
        get { value.withLock { $0 } }
        set { value.withLock { $0 = newValue } }
    }
}

/// Sends requests with the credential of their identity, and emits an event with the result of each.
///
/// It owns the pool, and ``AltcraftDevices`` calls it. ``AltcraftRejections`` has the meanings of answers;
/// `AltcraftClient+Results.swift` makes events and errors of them.
final class AltcraftClient: Sendable {
    let options: AltcraftOptions
    let auth: AltcraftAuth
    let time: any TimeSource
    let pool: any HTTPPool
    private let onEvent: @Sendable (AltcraftEvent) -> Void
    private let templates: [String: HTTPCallTemplate]
    private let formTemplate: HTTPCallTemplate

    init(
        options: AltcraftOptions,
        auth: AltcraftAuth,
        context: BackendContext,
        onEvent: @escaping @Sendable (AltcraftEvent) -> Void
    ) throws(HTTPPoolError) {
        self.options = options
        self.auth = auth
        self.onEvent = onEvent
        time = context.time
        var configuration = HTTPPoolConfiguration(endpoint: options.base.endpoint, version: .http1)
        options.common.apply(to: &configuration)
        configuration.endpoint = options.base.endpoint
        pool = try context.http.pool(configuration)
        var templates: [String: HTTPCallTemplate] = [:]
        for method in ["GET", "POST"] {
            templates[method] = HTTPCallTemplate(
                method: method,
                headers: [HTTPHeader("content-type", "application/json"), HTTPHeader("accept", "application/json")],
                deadline: options.common.timeout
            )
        }
        self.templates = templates
        formTemplate = HTTPCallTemplate(
            method: "POST",
            headers: [HTTPHeader("accept", "application/json")],
            deadline: options.common.timeout
        )
    }

    var codes: AltcraftEventCodes { options.eventCodes }

    // MARK: Requests

    /// Makes the request that `make` builds for a matching mode, and returns the answer of a success.
    ///
    /// - Throws: `PushError.Code.unavailable` or `PushError.Code.badAnswer` when another attempt may succeed, else
    ///   another code. The reason is the number of the event.
    func perform(
        _ context: AltcraftRequestContext,
        _ make: (_ mode: String) -> AltcraftRequest
    ) async throws(PushError) -> ResponseWithHttp {
        let strategy = auth.strategy(for: AltcraftIdentity(context.device), at: options.base.endpoint)
        let session: AltcraftSession
        do throws(PushError) {
            session = try await strategy.session()
        } catch {
            throw withoutCredential(error, context)
        }
        var answer = await exchange(make(session.matchingMode), session, context)
        if case .success(let first) = answer, strategy.isRefusal(first),
            await strategy.refused(session.credential, status: first.status, reason: nil) == .retry,
            let fresh = try? await strategy.session()
        {
            answer = await exchange(make(fresh.matchingMode), fresh, context)
        }
        switch answer {
        case .success(let answer): return try result(of: answer, context)
        case .failure(let failure): throw noAnswer(failure, context)
        }
    }

    private func exchange(
        _ request: AltcraftRequest,
        _ session: AltcraftSession,
        _ context: AltcraftRequestContext
    ) async -> Result<HTTPAnswer, HTTPFailure> {
        guard let template = request.form == nil ? templates[request.method] : formTemplate else {
            return .failure(HTTPFailure(.notProcessed, .invalidCall, "no such method"))
        }
        let id = context.attempt.id.uuidString.lowercased()
        var headers = [
            HTTPHeader("authorization", session.authorization.reveal(), .literal),
            HTTPHeader("request-id", id, .literal),
        ]
        var body = request.body.map { JSONValue.object($0).bytes } ?? []
        if let form = request.form {
            let boundary = "chapar-\(id)"
            headers.append(HTTPHeader("content-type", MultipartForm.type(boundary: boundary), .literal))
            body = form.bytes(boundary: boundary)
        }
        var target = request.target(under: options.base)
        for _ in 0...5 {
            let answer: HTTPAnswer
            do throws(HTTPFailure) {
                answer = try await pool.send(HTTPCall(template, path: target, headers: headers, body: body))
            } catch {
                return .failure(error)
            }
            // A redirect is followed on the same host only, which keeps the credential where it belongs.
            guard answer.status == 307 || answer.status == 308, let next = answer.header("location"),
                let path = Self.path(next, on: options.base.endpoint)
            else { return .success(answer) }
            target = path
        }
        return .success(HTTPAnswer(status: 310))
    }

    static func path(_ location: String, on endpoint: HTTPEndpoint) -> String? {
        if location.hasPrefix("/"), !location.hasPrefix("//") { return location }
        guard HTTPBaseURL(endpoint).covers(url: location), let mark = location.firstRange(of: "://") else { return nil }
        let rest = location[mark.upperBound...]
        return rest.firstIndex(of: "/").map { String(rest[$0...]) } ?? "/"
    }

    // MARK: Events

    func emit(
        _ context: AltcraftRequestContext,
        _ level: AltcraftEvent.Level,
        _ message: String,
        _ code: Int,
        _ value: JSONObject? = nil,
        _ response: ResponseWithHttp? = nil
    ) {
        var event = AltcraftEvent(
            level,
            function: context.action.rawValue,
            message: message,
            eventCode: code,
            value: value,
            response: response,
            date: time.now,
            device: context.device.id
        )
        event.requestID = context.attempt.id
        onEvent(event)
    }

    func emit(
        _ level: AltcraftEvent.Level,
        _ function: String,
        _ message: String,
        _ code: Int,
        _ value: JSONObject? = nil,
        device: String? = nil
    ) {
        onEvent(
            AltcraftEvent(
                level,
                function: function,
                message: message,
                eventCode: code,
                value: value,
                date: time.now,
                device: device
            )
        )
    }

    func shutdown(grace: Duration) async {
        await pool.shutdown(grace: grace)
        await auth.shutdown(grace: grace)
    }
}
