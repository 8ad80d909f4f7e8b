internal import Foundation
internal import ChaparCore

/// The words of Google's `FcmError` that the mapping table knows.
enum FCMErrorCode {
    static let unregistered = "UNREGISTERED"
    static let invalidArgument = "INVALID_ARGUMENT"
    static let senderMismatch = "SENDER_ID_MISMATCH"
    static let quotaExceeded = "QUOTA_EXCEEDED"
    static let thirdPartyAuth = "THIRD_PARTY_AUTH_ERROR"
    static let unavailable = "UNAVAILABLE"
    static let `internal` = "INTERNAL"
    static let unspecified = "UNSPECIFIED_ERROR"

    static let known: Set<String> = [
        unregistered, invalidArgument, senderMismatch, quotaExceeded, thirdPartyAuth, unavailable, `internal`,
        unspecified,
    ]
}

/// An error answer of FCM: `google.rpc.Status` with its details.
///
/// It may come from a proxy on the way, so reading never fails.
struct FCMAnswer {
    /// `error.status`, such as `NOT_FOUND`.
    private(set) var status: String?
    /// `FcmError.errorCode`, which decides first.
    private(set) var errorCode: String?
    /// `ErrorInfo.reason`: faults of the credential and of the project.
    private(set) var infoReason: String?
    /// Apple's own reason, for messages to iOS.
    private(set) var appleReason: String?
    /// The fields that `BadRequest` complains about.
    private(set) var violatedFields: [String] = []
    /// The texts of `QuotaFailure`, in lower case, with the message.
    private(set) var quotaText = ""
    /// `error.message`, which decides only where the table says so.
    ///
    /// It is never shown, since it may hold a token.
    private(set) var message = ""
    /// Whether the body is not Google's: a page of some device on the way.
    private(set) var isForeign = false

    init(_ answer: HTTPAnswer) {
        guard !answer.body.isEmpty else { return }
        guard let error = (try? JSONValue(parsing: answer.body))?["error"]?.objectValue else {
            // A truncated body is still Google's.
            isForeign = answer.body.first { $0 > 0x20 } != UInt8(ascii: "{")
            return
        }
        status = error["status"]?.stringValue.flatMap(\.asReasonLabel)
        message = error["message"]?.stringValue ?? ""
        quotaText = message.lowercased()
        for detail in error["details"]?.arrayValue ?? [] { read(detail) }
    }

    private mutating func read(_ detail: JSONValue) {
        let type = detail["@type"]?.stringValue ?? ""
        if type.hasSuffix("google.firebase.fcm.v1.FcmError") {
            errorCode = detail["errorCode"]?.stringValue.flatMap(\.asReasonLabel)
            // The old name, from before 2020.
            if errorCode == "APNS_AUTH_ERROR" { errorCode = FCMErrorCode.thirdPartyAuth }
        } else if type.hasSuffix("google.firebase.fcm.v1.ApnsError") {
            appleReason = detail["reason"]?.stringValue.flatMap(\.asReasonLabel)
        } else if type.hasSuffix("google.rpc.BadRequest") {
            violatedFields += (detail["fieldViolations"]?.arrayValue ?? []).compactMap { $0["field"]?.stringValue }
        } else if type.hasSuffix("google.rpc.QuotaFailure") {
            for violation in detail["violations"]?.arrayValue ?? [] {
                for member in ["subject", "description"] {
                    quotaText += " " + (violation[member]?.stringValue ?? "").lowercased()
                }
            }
        } else if type.hasSuffix("google.rpc.ErrorInfo") {
            infoReason = detail["reason"]?.stringValue.flatMap(\.asReasonLabel)
        }
    }
}

/// The body of a success: `{"name": "projects/p/messages/0:1767225600123456%abc"}`.
///
/// It is read for each accepted message, so Google's usual form has a fast path; every other form goes through the JSON
/// scanner, with the same result.
enum FCMMessageName {
    /// Returns the part of the name after `messages/`; nil when the body is no such answer.
    static func id(in body: [UInt8]) -> String? { plainID(in: body) ?? scannedID(in: body) }

    /// Reads the answer that Google gives: an object of one member whose value has no escapes.
    ///
    /// Returns nil for any other form.
    private static func plainID(in body: [UInt8]) -> String? {
        body.withUnsafeBufferPointer { text in
            var index = 0
            func skipBlanks() {
                while index < text.count, text[index] == 0x20 || text[index] == 0x0A || text[index] == 0x0D {
                    index += 1
                }
            }
            func consume(_ word: StaticString) -> Bool {
                skipBlanks()
                guard text.count - index >= word.utf8CodeUnitCount, let start = text.baseAddress,
                    memcmp(start + index, word.utf8Start, word.utf8CodeUnitCount) == 0
                else { return false }
                index += word.utf8CodeUnitCount
                return true
            }
            guard consume("{"), consume("\"name\""), consume(":"), consume("\"") else { return nil }
            var start = index
            while index < text.count, text[index] != UInt8(ascii: "\"") {
                switch text[index] {
                case UInt8(ascii: "/"): start = index + 1
                case UInt8(ascii: "\\"), 0..<0x20, 0x80...: return nil
                default: break
                }
                index += 1
            }
            let id = text[start..<index]
            guard consume("\""), consume("}"), !id.isEmpty, text[start - 1] == UInt8(ascii: "/") else { return nil }
            skipBlanks()
            return index == text.count ? String(decoding: id, as: UTF8.self) : nil
        }
    }

    private static func scannedID(in body: [UInt8]) -> String? {
        let name = try? JSONScanner.scan(body) { (scanner) throws(JSONSyntaxError) in
            var name: String?
            try scanner.object { (scanner, member) throws(JSONSyntaxError) in
                if member == "name" { name = try scanner.string() } else { try scanner.skip() }
            }
            return name
        }
        guard let name = name ?? nil, let slash = name.utf8.lastIndex(of: UInt8(ascii: "/")) else { return nil }
        let id = name[name.utf8.index(after: slash)...]
        return id.isEmpty ? nil : String(id)
    }
}
