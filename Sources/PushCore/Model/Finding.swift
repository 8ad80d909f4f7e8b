/// A finding about one field of a request, returned to the caller before sending.
///
/// A wrong field, or one that a platform would drop or change silently.
public struct Finding: Sendable, Hashable {
    /// The field, as a JSON pointer into the request (`#/content/subtitle`).
    public var pointer: String
    /// A stable word for programs.
    public var code: String
    /// A sentence for people.
    public var detail: String

    /// Makes a finding.
    public init(pointer: String, code: String, detail: String) {
        self.pointer = pointer
        self.code = code
        self.detail = detail
    }
}

/// The former name of ``Finding``.
@available(*, deprecated, renamed: "Finding")
public typealias PushWarning = Finding
