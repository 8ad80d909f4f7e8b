import ChaparCore

extension JSONValue {
    /// The value on several lines, indented by two spaces a level, for people.
    var indented: String { indented("") }

    private func indented(_ margin: String) -> String {
        let inner = margin + "  "
        switch self {
        case .object(let object) where !object.isEmpty:
            let lines = object.map { "\(inner)\(JSONValue.string($0.name).text): \($0.value.indented(inner))" }
            return "{\n" + lines.joined(separator: ",\n") + "\n\(margin)}"
        case .array(let values) where !values.isEmpty:
            return "[\n" + values.map { inner + $0.indented(inner) }.joined(separator: ",\n") + "\n\(margin)]"
        default: return text
        }
    }
}
