internal import Foundation
import ChaparCore

/// The table of Altcraft's answers and failures: the number of the event, and what a gateway does next.
///
/// Numbers are those of Altcraft's SDK (``AltcraftEventCodes``). A status of 5xx, or one of `alsoRetried`, is worth
/// another try; 401 and 403 are the account's where all devices share one credential; everything else is the request's.
extension AltcraftClient {
    /// The answer of a success; throws for anything else, after the event that tells it.
    func result(of answer: HTTPAnswer, _ context: AltcraftRequestContext) throws(PushError) -> ResponseWithHttp {
        let action = context.action
        var response = Response(answer.body)
        if let text = response?.errorText { response?.errorText = redacted(text, context) }
        let full = ResponseWithHttp(httpCode: answer.status, response: response)
        context.answerSlot?.answer = full
        let value = context.value
        let shown = full.redacted()
        let error = response?.error ?? 0
        if (200..<300).contains(answer.status), error == 0 {
            let remark = context.remark.map { ". Type: \($0)" } ?? ""
            emit(
                context,
                .info,
                "successful request: \(action.requestName)\(remark)",
                codes.success(action),
                value,
                shown
            )
            return full
        }
        let remark = context.remark.map { ", type: \($0)" } ?? ""
        let sentence =
            "request: \(action.requestName), http code: \(answer.status), error: \(error), "
            + "errorText: \(response?.errorText ?? "")\(remark)"
        if (500..<600).contains(answer.status) || options.alsoRetried.contains(answer.status) {
            let code = codes.failed(action)
            emit(context, .retry, sentence, code, value, shown)
            dropIfLast(context)
            throw PushError(
                .unavailable,
                sentence,
                reason: "\(code)",
                retryAfter: answer.retryAfter(now: time.now)
            )
        }
        let code = codes.refused(action)
        emit(context, .error, sentence, code, value, shown)
        let isAccount = auth.isShared && (answer.status == 401 || answer.status == 403)
        throw PushError(isAccount ? .credentialsRefused : .invalidRequest, sentence, reason: "\(code)")
    }

    /// The error of a request that got no answer, after the event that tells it.
    func noAnswer(_ failure: HTTPFailure, _ context: AltcraftRequestContext) -> PushError {
        switch failure.cause {
        case .invalidCall:
            emit(context, .error, "the request could not be built: \(failure.detail)", 561)
            return PushError(.invalidRequest, "the request could not be built: \(failure.detail)", reason: "561")
        case .badAnswer:
            emit(context, .retry, failure.detail, 572)
            dropIfLast(context)
            return PushError(.badAnswer, failure.detail, reason: "572")
        default:
            emit(context, .retry, failure.detail, 500)
            dropIfLast(context)
            return PushError(.unavailable, failure.detail, reason: "500")
        }
    }

    /// The error of a request whose identity has no credential, after the events that tell it.
    func withoutCredential(_ error: PushError, _ context: AltcraftRequestContext) -> PushError {
        let code = error.reason.flatMap { Int($0) } ?? 543
        emit(context, .error, error.message, code)
        if code == 540 { emit(context, .error, "auth data is nil", 543) }
        if context.action.isRepeated {
            emit(context, .error, "the user cannot be identified; the request waits", 503)
            dropIfLast(context)
        } else {
            emit(context, .error, "the request could not be prepared", codes.unprepared(context.action))
        }
        return error
    }

    /// Something is missing that has to be there before a request can be made.
    func unprepared(_ context: AltcraftRequestContext, _ message: String, code: Int? = nil) -> PushError {
        let code = code ?? codes.unprepared(context.action)
        emit(context, context.action.isRepeated ? .retry : .error, message, code)
        if context.action.isRepeated { dropIfLast(context) }
        return PushError(context.action.isRepeated ? .unavailable : .invalidRequest, message, reason: "\(code)")
    }

    /// Emits an event after the last try of a queued operation other than a token update: without it the loss would be
    /// silent.
    private func dropIfLast(_ context: AltcraftRequestContext) {
        guard context.action.isRepeated, context.action != .update,
            context.attempt.number >= options.operationPolicy.maximumAttempts
        else { return }
        let sentence = "given up after \(context.attempt.number) tries: \(context.action.requestName)"
        emit(context, .error, sentence, codes.dropped(context.action), context.value)
    }

    private func redacted(_ text: String, _ context: AltcraftRequestContext) -> String {
        var text = String(text.prefix(500))
        for token in context.tokens + context.device.tokens.map(\.value) where token.count >= 8 {
            text = text.replacing(token, with: Fingerprint.of(token))
        }
        return text
    }
}
