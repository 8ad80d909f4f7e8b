/// A step that a store's tables lack: for `chapar migrate --plan`.
package struct MigrationStep: Sendable, Hashable {
    /// What it is called.
    package var name: String
    /// What would be run; nil where a store does not say.
    package var statements: String?
    /// Whether a gateway that knows all steps before it can go on while it is there.
    package var isCompatible: Bool

    package init(name: String, statements: String? = nil, isCompatible: Bool = false) {
        (self.name, self.statements, self.isCompatible) = (name, statements, isCompatible)
    }
}

extension MigrationStep {
    /// The sentence about a step that is done.
    package static func told(_ name: String, _ number: Int, of count: Int, after span: Duration) -> String {
        "step \(number) of \(count), \(name), took \(seconds(span))"
    }

    /// A span in seconds, to a tenth.
    package static func seconds(_ span: Duration) -> String {
        let tenths = span.boundedMilliseconds / 100
        return "\(tenths / 10).\(tenths % 10) s"
    }
}
