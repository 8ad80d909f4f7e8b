public import ChaparCore

extension PushAccount where Backend == FCMBackend {
    /// Returns a project's account at Google, by the key file of a service account.
    ///
    /// - Parameters:
    ///   - serviceAccount: The text of the key file (JSON).
    ///   - common: The options that every backend has, such as the address of a relay or a simulator. Google asks for a
    ///     timeout of at least ten seconds.
    /// - Returns: The account.
    /// - Throws: What is wrong with the key file, and how to mend it.
    public static func fcm(
        serviceAccount: String,
        common: CommonBackendOptions = CommonBackendOptions(timeout: .seconds(15))
    ) throws -> PushAccount {
        var options = FCMOptions(serviceAccount: try GoogleServiceAccount(json: Secret(serviceAccount)))
        options.common = common
        // A simulator's user must not change topics at Google by accident.
        if !common.address.isPlatform { options.instanceIDEndpoint = nil }
        return .fcm(options)
    }

    /// Returns the account that a simulator of Google hands out.
    ///
    /// Throws for an account of another platform.
    public static func fcm(_ simulated: SimulatedAccount) throws -> PushAccount {
        try .fcm(serviceAccount: simulated.field("service_account", of: "fcm"), common: simulated.common)
    }

    /// Returns an account with all options of the plugin.
    public static func fcm(_ options: FCMOptions) -> PushAccount {
        PushAccount { context in try FCMBackend(options: options, context: context) }
    }
}
