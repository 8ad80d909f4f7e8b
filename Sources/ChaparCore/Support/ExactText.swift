/// A text that equals another only if all bytes are the same, as in every store.
///
/// `String` equates an é of one code point with an é of two. Names from outside (users, tokens, ids of platforms) must
/// not be equated in this way: another spelling is another user. The hash is computed from the bytes as well. Otherwise
/// many spellings of one text would share a hash, and look-ups would take long.
package struct ExactText: Hashable, Sendable {
    /// The text.
    package let text: String

    package init(_ text: String) { self.text = text }

    package static func == (left: ExactText, right: ExactText) -> Bool {
        // Different texts nearly always differ for `String` too, which finds that quickly.
        left.text == right.text && left.text.utf8.elementsEqual(right.text.utf8)
    }

    package func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        // No text holds this byte, so that two texts in a row hash differently from any other two.
        hasher.combine(UInt8.max)
    }
}
