import Foundation
import ChaparCore

/// An answer of the push API.
///
/// Huawei writes it in several forms, so reading accepts all of them and never fails.
///
/// `{"code":"80000000","msg":"Success","requestId":"…"}`: the verdict is `code`, at any HTTP status, as a string or a
/// number. With partial success `msg` is JSON inside a string.
struct HMSAnswer: Sendable {
    let status: Int
    /// Huawei's code, 1 to 12 digits; nil when there is none to be read.
    let code: String?
    /// Huawei's id of the request.
    let requestID: String?
    /// The refused tokens, when the answer lists them.
    let partial: Partial?
    /// The pause that the platform asked for.
    let retryAfter: Duration?

    /// The refused tokens and the counts of a partial success.
    struct Partial: Sendable {
        /// The refused tokens with their reasons; nil where none was given, as in v1 and v2.
        var refused: [(token: String, reason: String?)] = []
        /// The number of refused tokens, by Huawei's count.
        var failures: Int?
        /// The number of accepted tokens, by Huawei's count.
        var successes: Int?
    }

    init(_ answer: HTTPAnswer, now: Date) {
        status = answer.status
        retryAfter = answer.retryAfter(now: now)
        let body = try? JSONValue(parsing: answer.body)
        code = body?["code"].flatMap(Self.code)
        requestID = body?["requestId"].flatMap { $0.stringValue ?? $0.integerValue.map(String.init) }
            .flatMap { (1...128).contains($0.utf8.count) ? $0 : nil }
        // With v3 the refusal of all tokens may name their reasons as well.
        partial = code == "80100000" || code == "80300007" ? Self.partial(body?["msg"]) : nil
    }

    private static func code(_ value: JSONValue) -> String? {
        guard let text = value.stringValue ?? value.integerValue.map(String.init) else { return nil }
        let isCode = (1...12).contains(text.utf8.count) && text.utf8.allSatisfy { (0x30...0x39).contains($0) }
        return isCode ? text : nil
    }

    /// Reads both names (`illegal_tokens`, `illegalTokens`) and both forms (a list, an object of lists by reason).
    private static func partial(_ message: JSONValue?) -> Partial? {
        var inner = message
        if let text = message?.stringValue { inner = try? JSONValue(parsing: Array(text.utf8)) }
        guard let object = inner?.objectValue else { return nil }
        var partial = Partial(failures: count(object["failure"]), successes: count(object["success"]))
        for name in ["illegal_tokens", "illegalTokens"] {
            switch object[name] {
            case .array(let tokens)?:
                partial.refused += tokens.compactMap { $0.stringValue.map { ($0, nil) } }
            case .object(let reasons)?:
                for (reason, tokens) in reasons {
                    partial.refused += (tokens.arrayValue ?? []).compactMap { $0.stringValue.map { ($0, reason) } }
                }
            default: break
            }
        }
        return partial
    }

    /// Returns a count, which may also be written as a string.
    static func count(_ value: JSONValue?) -> Int? {
        value.flatMap { $0.integerValue ?? $0.stringValue.flatMap { Int64($0) } }.flatMap { Int(exactly: $0) }
    }
}
