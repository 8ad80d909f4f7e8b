internal import Foundation
import ChaparCore

/// The effects of the rows of ``AltcraftRejections``: events, errors, and the end of an operation's attempts.
///
/// Numbers are those of Altcraft's SDK (``AltcraftEventCodes``).
extension AltcraftClient {
    /// Returns the answer of a success; throws for anything else, after the event about it.
    func result(of answer: HTTPAnswer, _ context: AltcraftRequestContext) throws(PushError) -> ResponseWithHttp {
        let action = context.action
        var response = Response(answer.body)
        if let text = response?.errorText { response?.errorText = redacted(text, context) }
        let full = ResponseWithHttp(httpCode: answer.status, response: response)
        context.answerSlot?.answer = full
        let value = context.value
        let shown = full.redacted()
        let error = response?.error ?? 0
        let consequence = AltcraftRejections.consequence(
            of: answer.status,
            error: error,
            alsoRetried: options.alsoRetried,
            isShared: auth.isShared
        )
        if consequence == .success {
            let remark = context.remark.map { ". \(action.remarkName.ofSuccess): \($0)" } ?? ""
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
        let remark = context.remark.map { ", \(action.remarkName.ofFailure): \($0)" } ?? ""
        let sentence =
            "request: \(action.requestName), http code: \(answer.status), error: \(error), "
            + "errorText: \(response?.errorText ?? "")\(remark)"
        if consequence == .retry {
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
        throw PushError(
            consequence == .account ? .credentialsRefused : .invalidRequest,
            sentence,
            reason: "\(code)"
        )
    }

    /// Returns the error of a request that got no answer, after the event about it.
    func noAnswer(_ failure: HTTPFailure, _ context: AltcraftRequestContext) -> PushError {
        let row = AltcraftRejections.noAnswer(failure.cause)
        let sentence = row.opening + failure.detail
        emit(context, row.isRepeated ? .retry : .error, sentence, row.number)
        if row.isRepeated { dropIfLast(context) }
        return PushError(row.code, sentence, reason: "\(row.number)")
    }

    /// Returns the error of a request whose identity has no credential, after the events about it.
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

    /// Returns the error of a request that cannot be built since a part is missing, after the event about it.
    func unprepared(_ context: AltcraftRequestContext, _ message: String, code: Int? = nil) -> PushError {
        let code = code ?? codes.unprepared(context.action)
        emit(context, context.action.isRepeated ? .retry : .error, message, code)
        if context.action.isRepeated { dropIfLast(context) }
        return PushError(context.action.isRepeated ? .unavailable : .invalidRequest, message, reason: "\(code)")
    }

    /// Emits an event after the last attempt of a queued operation, which would otherwise be dropped silently.
    ///
    /// Token updates are left out.
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
