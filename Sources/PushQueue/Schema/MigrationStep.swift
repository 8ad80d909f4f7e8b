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
