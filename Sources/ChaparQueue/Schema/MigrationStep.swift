/// A step that a store's tables lack: for `chapar migrate --plan`.
package struct MigrationStep: Sendable, Hashable {
    /// The name of the step.
    package var name: String
    /// The statements of the step; nil where a store does not show them.
    package var statements: String?
    /// Whether a gateway that knows all earlier steps can continue to run after it.
    package var isCompatible: Bool

    package init(name: String, statements: String? = nil, isCompatible: Bool = false) {
        (self.name, self.statements, self.isCompatible) = (name, statements, isCompatible)
    }
}

extension MigrationStep {
    /// Returns the sentence about a finished step.
    package static func told(_ name: String, _ number: Int, of count: Int, after span: Duration) -> String {
        "step \(number) of \(count), \(name), took \(seconds(span))"
    }

    /// Returns a span in seconds, to a tenth.
    package static func seconds(_ span: Duration) -> String {
        let tenths = span.boundedMilliseconds / 100
        return "\(tenths / 10).\(tenths % 10) s"
    }
}
