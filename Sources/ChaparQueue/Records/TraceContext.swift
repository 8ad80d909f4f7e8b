/// The place of a notification in a distributed trace: the headers `traceparent` and `tracestate` of its request.
///
/// Kept in the notification's record, so that the spans of its queue, its attempts and its webhooks continue the trace
/// of the request after a restart, and on another gateway. The form of both headers:
/// [Trace Context](https://www.w3.org/TR/trace-context/), level 1.
public struct TraceContext: Sendable, Hashable {
    /// The stored form: the trace id (16 bytes), the parent's span id (8 bytes, zero without a parent), the flags, and
    /// the text of `tracestate`.
    public let encoded: [UInt8]

    /// The bytes before the text of `tracestate`.
    private static let fixedBytes = 25
    /// The most bytes of `tracestate`; a longer one is dropped, as the specification allows.
    public static let maximumStateBytes = 512
    /// The most members of `tracestate`, and the most bytes of a key and of a value.
    private static let maximumMembers = 32, maximumMemberBytes = 256
    private static let sampledFlag: UInt8 = 1

    /// Reads the stored form; nil when it is damaged.
    public init?(encoded: some Collection<UInt8>) {
        guard (Self.fixedBytes...Self.fixedBytes + Self.maximumStateBytes).contains(encoded.count),
            encoded.prefix(16).contains(where: { $0 != 0 })
        else { return nil }
        self.encoded = Array(encoded)
    }

    /// Begins a trace, of which the spans are sampled.
    package static func begun() -> TraceContext {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(fixedBytes)
        // A trace id is not zero.
        for half in [UInt64.random(in: 1 ... .max), UInt64.random(in: 0 ... .max)] { append(half, to: &bytes) }
        append(0, to: &bytes)
        bytes.append(sampledFlag)
        return TraceContext(bytes: bytes)
    }

    /// Reads the headers of a request; nil without a `traceparent` that is valid.
    ///
    /// A `tracestate` that is too long or not valid is dropped, and the trace goes on without it. Headers that are not
    /// valid are never an error, as the specification asks: a broken trace must not stop a message.
    public init?(traceparent: String, tracestate: String? = nil) {
        let text = Array(traceparent.utf8)
        guard text.count >= 55, text[2] == UInt8(ascii: "-"), text[35] == UInt8(ascii: "-"),
            text[52] == UInt8(ascii: "-"), let version = Self.bytes(text[0..<2])?.first, version != 0xFF,
            text.count == 55 || version != 0 && text[55] == UInt8(ascii: "-"),
            let trace = Self.bytes(text[3..<35]), let parent = Self.bytes(text[36..<52]),
            let flags = Self.bytes(text[53..<55])
        else { return nil }
        guard trace.contains(where: { $0 != 0 }), parent.contains(where: { $0 != 0 }) else { return nil }
        var encoded = trace + parent + flags
        if let tracestate, Self.isState(tracestate) { encoded += tracestate.utf8 }
        self.encoded = encoded
    }

    /// Whether a `tracestate` has at most 32 members, each with a key of its own, in the form of level 2.
    private static func isState(_ text: String) -> Bool {
        guard text.utf8.count <= maximumStateBytes else { return false }
        var keys: Set<ArraySlice<UInt8>> = []
        for part in Array(text.utf8).split(separator: UInt8(ascii: ",")) {
            let isBlank: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 }
            // Members may be empty, and blanks may stand around each.
            guard let first = part.firstIndex(where: { !isBlank($0) }),
                let last = part.lastIndex(where: { !isBlank($0) })
            else { continue }
            let member = part[first...last]
            guard let sign = member.firstIndex(of: UInt8(ascii: "=")), keys.count < maximumMembers,
                isKey(member[..<sign]), isValue(member[member.index(after: sign)...]),
                keys.insert(member[..<sign]).inserted
            else { return false }
        }
        return !keys.isEmpty
    }

    private static func isKey(_ key: ArraySlice<UInt8>) -> Bool {
        guard let first = key.first, key.count <= maximumMemberBytes else { return false }
        let isWord: (UInt8) -> Bool = {
            (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
        }
        return isWord(first) && key.allSatisfy { isWord($0) || "_-*/@".utf8.contains($0) }
    }

    private static func isValue(_ value: ArraySlice<UInt8>) -> Bool {
        !value.isEmpty && value.count <= maximumMemberBytes
            && value.allSatisfy { (0x20...0x7E).contains($0) && $0 != UInt8(ascii: "=") }
    }

    private init(bytes: [UInt8]) { encoded = bytes }

    /// The trace id, 32 hexadecimal digits.
    public var traceID: String { Self.hex(encoded[0..<16]) }
    /// The span id of the request's sender; zero for a trace that began here.
    public var parent: UInt64 { number(at: 16) }
    /// Whether the spans of the trace are exported.
    public var isSampled: Bool { encoded[24] & Self.sampledFlag != 0 }
    /// The text of `tracestate`; nil without one.
    public var state: String? {
        encoded.count > Self.fixedBytes ? String(decoding: encoded[Self.fixedBytes...], as: UTF8.self) : nil
    }

    /// Returns the context of a child of the span of a notification's acceptance.
    package func child(of notification: NotificationID) -> TraceContext {
        var bytes = Array(encoded[0..<16])
        Self.append(span(of: notification), to: &bytes)
        bytes += encoded[24...]
        return TraceContext(bytes: bytes)
    }

    /// Returns the id of the span of a notification's acceptance.
    ///
    /// It follows from trace and notification, so that every gateway knows it without storing it.
    package func span(of notification: NotificationID) -> UInt64 {
        // SplitMix64: each bit of the input changes half of the bits of the result.
        var mixed = number(at: 8) ^ UInt64(bitPattern: notification.rawValue)
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        mixed ^= mixed >> 31
        return mixed == 0 ? 1 : mixed
    }

    private func number(at place: Int) -> UInt64 {
        encoded.dropFirst(place).prefix(8).reduce(0) { $0 << 8 | UInt64(truncatingIfNeeded: $1) }
    }

    private static func append(_ number: UInt64, to bytes: inout [UInt8]) {
        for shift in stride(from: 56, through: 0, by: -8) { bytes.append(UInt8(truncatingIfNeeded: number >> shift)) }
    }

    /// Returns the bytes of lower-case hexadecimal digits; nil for other text.
    private static func bytes(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count / 2)
        var high: UInt8?
        for digit in text {
            let value: UInt8
            switch digit {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = digit - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): value = digit - UInt8(ascii: "a") + 10
            default: return nil
            }
            if let first = high {
                bytes.append(first << 4 | value)
                high = nil
            } else {
                high = value
            }
        }
        return bytes
    }

    private static func hex(_ bytes: ArraySlice<UInt8>) -> String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}
