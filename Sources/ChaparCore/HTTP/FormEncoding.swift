/// The percent-encoding, in UTF-8, of forms (`application/x-www-form-urlencoded`) and of path segments.
///
/// Use it for any outside text in a path, a query or a form. It only writes: it cannot read a form.
public enum FormEncoding {
    /// Encodes all characters except letters, digits and `-._~` as `%XX`; a space becomes `%20`, never `+`.
    ///
    /// `kept` lists further ASCII characters to leave as they are.
    public static func encode(_ text: String, keeping kept: String = "") -> String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.utf8.count)
        let kept = Array(kept.utf8)
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"):
                bytes.append(byte)
            case _ where kept.contains(byte): bytes.append(byte)
            default:
                bytes.append(UInt8(ascii: "%"))
                bytes.append(digit(byte >> 4))
                bytes.append(digit(byte & 15))
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Returns the pairs as one form, in order.
    public static func body(_ fields: [(name: String, value: String)], keeping kept: String = "") -> [UInt8] {
        let pairs = fields.map { "\(encode($0.name, keeping: kept))=\(encode($0.value, keeping: kept))" }
        return Array(pairs.joined(separator: "&").utf8)
    }

    /// Returns a path of segments under a base address, each percent-encoded as one.
    ///
    /// Throws for a segment that is empty, `.` or `..`: servers resolve these as steps of the path, even if they are
    /// encoded. The request would then go to another address with the same credential.
    public static func path(_ segments: [String]) throws(PushError) -> String {
        var path = ""
        for segment in segments {
            guard !["", ".", ".."].contains(segment) else {
                throw PushError(.invalidRequest, "\"\(segment)\" cannot stand in a path", reason: "bad_path_segment")
            }
            path += "/" + encode(segment)
        }
        return path
    }

    private static func digit(_ nibble: UInt8) -> UInt8 {
        nibble < 10 ? UInt8(ascii: "0") + nibble : UInt8(ascii: "A") - 10 + nibble
    }
}
