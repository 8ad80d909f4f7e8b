/// A value that must never be shown: it prints as `<secret>`.
public struct Secret: Sendable, Hashable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    private let value: String

    /// Wraps a value.
    public init(_ value: String) { self.value = value }

    /// The value itself.
    ///
    /// Call it only where the secret is used, never to build a message.
    public func reveal() -> String { value }

    /// Whether the value is empty or white space only.
    public var isBlank: Bool { value.allSatisfy(\.isWhitespace) }

    /// `<secret>`.
    public var description: String { "<secret>" }
    /// `<secret>`.
    public var debugDescription: String { "<secret>" }
    /// An empty mirror, so that `dump` shows nothing.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
