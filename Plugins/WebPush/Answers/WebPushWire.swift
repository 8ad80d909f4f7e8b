internal import ChaparCore

/// A push service's answer: the values that tell the outcome, for any service.
///
/// Mozilla answers in JSON with `errno`, Apple in JSON with `reason`, Microsoft in header fields, Google in HTML or
/// text.
struct WebPushAnswer: Sendable {
    /// The most bytes of a body that are looked at.
    private static let mostBytes = 4_096
    /// The most characters of an id that are kept.
    private static let longestID = 128

    let status: Int
    /// Mozilla's number.
    let errno: Int64?
    /// Apple's word, or Google's where it answers in JSON.
    let reason: String?
    /// The body in lower case, for the words of Mozilla and Google.
    let text: String
    /// Microsoft's `X-WNS-STATUS`, in lower case.
    let wnsStatus: String?
    /// Whether Microsoft explains a fault.
    let hasWNSError: Bool
    /// The message's id: Apple's, else the last part of `Location`.
    let platformID: String?

    init(_ answer: HTTPAnswer) {
        status = answer.status
        let body = Array(answer.body.prefix(Self.mostBytes))
        let object = body.first == UInt8(ascii: "{") ? (try? JSONValue(parsing: body))?.objectValue : nil
        errno = object?["errno"]?.integerValue
        reason = object?["reason"]?.stringValue
        text = String(decoding: body, as: UTF8.self).lowercased()
        wnsStatus = answer.header("x-wns-status")?.lowercased()
        hasWNSError = answer.header("x-wns-error-description") != nil
        let place = answer.header("location").flatMap { location in
            location.split(separator: "/").last.map { String($0.prefix { $0 != "?" && $0 != "#" }) }
        }
        platformID = (answer.header("apns-id") ?? place).map { String($0.prefix(Self.longestID)) }
    }
}
