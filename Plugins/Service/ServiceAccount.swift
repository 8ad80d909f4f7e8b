public import ChaparCore

extension PushAccount where Backend == ServiceBackend {
    /// Returns an account of your own service, which gets batches over HTTP (`kind: http`).
    ///
    /// - Parameters:
    ///   - options: The options of the plugin.
    ///   - strategy: The access tokens that requests carry besides their signature.
    /// - Returns: The account.
    public static func service(_ options: ServiceOptions, strategy: (any AuthStrategy)? = nil) -> PushAccount {
        PushAccount { context in try ServiceBackend(options: options, strategy: strategy, context: context) }
    }
}
