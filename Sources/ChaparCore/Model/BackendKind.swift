/// A kind of backend: the word after `kind:` in a configuration file, such as `apns`.
public struct BackendKind: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    /// The word.
    public let rawValue: String
    /// Makes a kind.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// Makes a kind.
    public init(stringLiteral value: String) { rawValue = value }
    /// The word.
    public var description: String { rawValue }
}
