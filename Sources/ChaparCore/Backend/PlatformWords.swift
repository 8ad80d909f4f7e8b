/// The words in a platform's block of `overrides` that callers may write in upper or lower case, such as `high` for
/// Huawei's `HIGH`.
///
/// A plugin replaces these words by the platform's spelling before it checks and sends the block.
public struct PlatformWords: Sendable {
    private let members: [(path: [String], words: [String])]

    /// Makes a table: the path of each field, such as `notification/importance`, with its words as the platform writes
    /// them.
    public init(_ words: [String: [String]]) {
        members = words.map { path, words in (path.split(separator: "/").map(String.init), words) }
    }

    /// Returns a block with the words as the platform writes them; a word that the platform does not have stays as it
    /// is.
    public func folded(_ block: JSONObject) -> JSONObject {
        guard !block.isEmpty else { return block }
        var block = block
        for (path, words) in members { Self.fold(path[...], words, in: &block) }
        return block
    }

    private static func fold(_ path: ArraySlice<String>, _ words: [String], in object: inout JSONObject) {
        guard let name = path.first, let value = object[name] else { return }
        if path.count == 1 {
            guard let text = value.stringValue, let word = Suggestion.same(as: text, among: words), word != text else {
                return
            }
            object[name] = .string(word)
        } else if var inner = value.objectValue {
            fold(path.dropFirst(), words, in: &inner)
            if .object(inner) != value { object[name] = .object(inner) }
        }
    }
}
