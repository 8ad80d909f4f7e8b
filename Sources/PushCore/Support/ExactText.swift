/// A text that equals another one only byte for byte, as it does in every store.
///
/// For `String` an é of one code point and an é of two are the same. Names from outside (users, tokens, ids of
/// platforms) are not: whoever spells a name in another way is somebody else. The hash is one of the bytes as well,
/// since many spellings of one text would otherwise share a hash, and look-ups of them would take long.
package struct ExactText: Hashable, Sendable {
    /// The text.
    package let text: String

    package init(_ text: String) { self.text = text }

    package static func == (left: ExactText, right: ExactText) -> Bool {
        // Texts that differ nearly always differ for `String` too, which finds it quickly.
        left.text == right.text && left.text.utf8.elementsEqual(right.text.utf8)
    }

    package func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        // No text holds this byte, so two texts one after the other are hashed unlike any other two.
        hasher.combine(UInt8.max)
    }
}
