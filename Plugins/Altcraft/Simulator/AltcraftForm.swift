internal import ChaparCore
internal import ChaparSimulator

/// The parts of a `multipart/form-data` body (RFC 7578), by their names.
struct AltcraftForm {
    /// A part: the type of its content, and the content.
    struct Part {
        let type: String
        let content: [UInt8]
    }

    let parts: [String: Part]

    /// Reads the form of a request; nil when there is none, when it is broken, or when two parts have one name.
    init?(_ request: SandboxRequest) {
        guard let field = request.header("content-type"), field.lowercased().hasPrefix("multipart/form-data;"),
            let mark = field.firstRange(of: "boundary=")
        else { return nil }
        let boundary = field[mark.upperBound...].drop { $0 == "\"" }.prefix { $0 != "\"" && $0 != ";" }
        guard (1...70).contains(boundary.utf8.count) else { return nil }
        var rest = request.body[...]
        var parts: [String: Part] = [:]
        let delimiter = Array("--\(boundary)".utf8)
        guard rest.starts(with: delimiter) else { return nil }
        rest = rest.dropFirst(delimiter.count)
        while !rest.starts(with: "--".utf8) {
            guard rest.starts(with: "\r\n".utf8) else { return nil }
            rest = rest.dropFirst(2)
            guard let head = rest.firstRange(of: Array("\r\n\r\n".utf8)),
                let end = rest[head.upperBound...].firstRange(of: Array("\r\n".utf8) + delimiter),
                let (name, type) = Self.head(String(decoding: rest[..<head.lowerBound], as: UTF8.self)),
                parts[name] == nil
            else { return nil }
            parts[name] = Part(type: type, content: Array(rest[head.upperBound..<end.lowerBound]))
            rest = rest[end.upperBound...]
        }
        self.parts = parts
    }

    /// Returns the name and the type of a part's head; nil for one without a name.
    private static func head(_ text: String) -> (name: String, type: String)? {
        var name: String?
        var type = "text/plain"
        for line in text.split(separator: "\r\n") {
            let sides = line.split(separator: ":", maxSplits: 1)
            guard sides.count == 2 else { return nil }
            let value = sides[1].drop { $0 == " " }
            switch sides[0].lowercased() {
            case "content-disposition":
                guard value.hasPrefix("form-data; name=\""), value.hasSuffix("\"") else { return nil }
                name = String(value.dropFirst("form-data; name=\"".count).dropLast())
            case "content-type": type = value.lowercased()
            default: return nil
            }
        }
        return name.map { ($0, type) }
    }

    /// Returns the content of a text part; nil without it, or for one of another type.
    func text(_ name: String) -> String? {
        guard let part = parts[name], part.type.hasPrefix("text/plain") else { return nil }
        return String(validating: part.content, as: UTF8.self)
    }

    /// Returns the content of a JSON part; nil without it, or for one of another type.
    func json(_ name: String) -> JSONValue? {
        guard let part = parts[name], part.type.hasPrefix("application/json") else { return nil }
        return try? JSONValue(parsing: part.content)
    }
}
