package import ChaparCore

extension PushBackend {
    /// The names of the backend's abilities beside sending, as the API and the command line show them.
    package var abilityNames: [String] {
        let all: [(String, Bool)] = [
            ("devices", devices != nil), ("subscriptions", subscriptions != nil), ("tags", tags != nil),
            ("events", events != nil), ("cancellation", cancellation != nil), ("recall", recall != nil),
            ("tracking", tracking != nil), ("topics", topics != nil), ("channels", channels != nil),
            ("token_directory", tokenDirectory != nil),
        ]
        return all.filter(\.1).map(\.0)
    }
}
