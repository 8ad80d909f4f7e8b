internal import Crypto
public import Foundation
public import ChaparCore

/// Checks and reads Huawei's delivery receipts.
///
/// `X-HUAWEI-CALLBACK-ID: timestamp=<ms>;nonce=<…>;value=<…>`, where `value` is the base64 form of
/// HMAC-SHA256(secret, timestamp + nonce + user). Source: Huawei, "Message receipt", read 2026-08.
///
/// The signature does not cover the body. So a field is valid only for the first body that came with it, while its
/// timestamp is valid. Two attacks remain. An attacker who reads a field within TLS and sends another body first is
/// believed. After a restart a field can be sent again for five minutes.
public struct HMSReceipts: ReceiptReader {
    /// The largest difference, in seconds, between a callback's time and now; a recorded callback must not be accepted
    /// later.
    public static let tolerance: TimeInterval = 300
    /// The most statuses in one callback; Huawei sends up to 100.
    static let limit = 1000

    private let options: HMSReceiptOptions
    private let key: SymmetricKey
    private let memory = HMSNonces(life: 2 * Self.tolerance)
    private let pauses: HMSTokenPauses?

    /// Makes a reader.
    public init(_ options: HMSReceiptOptions) { self.init(options, pauses: nil) }

    /// Makes a reader that records the tokens that Huawei asks to pause.
    init(_ options: HMSReceiptOptions, pauses: HMSTokenPauses?) {
        self.options = options
        self.pauses = pauses
        let secret = options.secret.reveal()
        switch options.encoding {
        case .raw: key = SymmetricKey(data: Data(secret.utf8))
        case .base64: key = SymmetricKey(data: Data(base64Encoded: secret) ?? Data(secret.utf8))
        }
    }

    /// The body that Huawei expects: `{"code":"0","message":"success"}`.
    public var acknowledgement: [UInt8] { Array(#"{"code":"0","message":"success"}"#.utf8) }

    /// Checks the signature, which is in the head and does not cover the body; returns true or throws.
    public func isAuthentic(head callback: ReceiptCallback) throws(ReceiptRefusal) -> Bool {
        _ = try check(callback)
        return true
    }

    /// Checks a callback again, with its body, and returns its receipts.
    public func receipts(in callback: ReceiptCallback) throws(ReceiptRefusal) -> [DeliveryReceipt] {
        let signed = try check(callback)
        guard memory.isFirstBody(callback.body, of: signed, at: callback.receivedAt) else {
            throw .notAuthentic("the same X-HUAWEI-CALLBACK-ID came with another body before")
        }
        guard let body = try? JSONValue(parsing: callback.body) else { throw .malformed("the body is not JSON") }
        // The older form has one status for each body, or a list under the same name.
        guard let statuses = body["statuses"]?.arrayValue ?? (body["requestId"] == nil ? nil : [body]) else {
            throw .malformed("the body has no statuses")
        }
        guard statuses.count <= Self.limit else { throw .malformed("more than \(Self.limit) statuses in one callback") }
        let receipts = statuses.compactMap { Self.receipt($0, receivedAt: callback.receivedAt) }
        for receipt in receipts { look(at: receipt, receivedAt: callback.receivedAt) }
        return receipts
    }

    /// Starts or ends the pause of the token that a receipt names.
    ///
    /// A receipt with a time in the future counts as one of now, so that no pause is longer than its rule.
    private func look(at receipt: DeliveryReceipt, receivedAt: Date) {
        guard let pauses, let token = receipt.token else { return }
        if receipt.event == .delivered {
            pauses.end(token)
        } else {
            pauses.add(receipt.reason, of: token, at: min(receipt.at, receivedAt))
        }
    }

    /// Checks the signature and returns the text that it signs.
    private func check(_ callback: ReceiptCallback) throws(ReceiptRefusal) -> Data {
        guard let field = callback.header("x-huawei-callback-id"), field.utf8.count <= 1024 else {
            throw .notAuthentic("there is no X-HUAWEI-CALLBACK-ID")
        }
        var parts: [Substring: Substring] = [:]
        for part in field.split(separator: ";") {
            let pair = part.drop { $0 == " " }.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            if pair.count == 2 { parts[pair[0]] = pair[1] }
        }
        guard let timestamp = parts["timestamp"], let nonce = parts["nonce"], let value = parts["value"],
            let milliseconds = Int64(timestamp), let code = Data(base64Encoded: String(value))
        else { throw .notAuthentic("X-HUAWEI-CALLBACK-ID cannot be read") }
        let text = Data((String(timestamp) + nonce + options.user).utf8)
        // Compares in constant time.
        guard HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: text, using: key) else {
            throw .notAuthentic("the signature is wrong: check user, secret and secret_encoding under receipts")
        }
        let age = callback.receivedAt.timeIntervalSince(Date(millisecondsSince1970: milliseconds))
        guard abs(age) <= Self.tolerance else {
            throw .notAuthentic(
                "the callback is \(Int(clamping: age)) s old; \(Int(clamping: Self.tolerance)) is the most"
            )
        }
        return text
    }

    /// Returns the receipt of a status, in the newer form (`deliveryStatus`) or in the older one, whose members stand
    /// at the top level.
    private static func receipt(_ status: JSONValue, receivedAt: Date) -> DeliveryReceipt? {
        guard let requestID = text(status["requestId"]), let token = status["token"]?.stringValue else { return nil }
        let inner = status["deliveryStatus"]
        guard let result = HMSAnswer.count(inner?["result"] ?? status["status"]) else { return nil }
        let time = HMSAnswer.count(inner?["timestamp"] ?? status["timestamp"])
            .map { Date(millisecondsSince1970: Int64($0)) }
        let at = time ?? receivedAt
        let meaning = HMSReceiptStatus.meaning(of: result)
        return DeliveryReceipt(
            meaning.event,
            platformID: requestID,
            token: token,
            deliveryTag: status["biTag"]?.stringValue,
            reason: meaning.reason,
            detail: meaning.detail,
            at: at,
            // Without Huawei's own time, a token that was registered meanwhile could be called dead.
            invalidation: meaning.isDeath ? time.map { .init(asOf: $0, isCertain: true) } : nil
        )
    }

    private static func text(_ value: JSONValue?) -> String? {
        value.flatMap { $0.stringValue ?? $0.integerValue.map(String.init) }
    }
}
