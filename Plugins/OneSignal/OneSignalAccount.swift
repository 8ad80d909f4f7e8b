public import ChaparCore

extension PushAccount where Backend == OneSignalBackend {
    /// Returns an app's account at OneSignal.
    ///
    /// - Parameters:
    ///   - options: The options of the plugin.
    ///   - strategy: The credentials of a relay before OneSignal, instead of the app's key.
    /// - Returns: The account.
    public static func oneSignal(_ options: OneSignalOptions, strategy: (any AuthStrategy)? = nil) -> PushAccount {
        PushAccount { context in try OneSignalBackend(options: options, strategy: strategy, context: context) }
    }
}
