public import ChaparCore

extension PushAccount where Backend == APNsBackend {
    /// Returns an app's account at Apple, by a key of its team.
    ///
    /// - Parameters:
    ///   - key: The text of the key's file, `AuthKey_….p8`.
    ///   - keyID: The key's id, 10 characters; it stands in the file's name.
    ///   - teamID: The team's id, 10 characters.
    ///   - topic: The app's bundle id.
    ///   - environment: The environment of its tokens: builds run from Xcode have development tokens.
    ///   - common: The options that every backend has, such as the address of a relay or a simulator.
    /// - Returns: The account.
    /// - Throws: What is wrong with the key, and how to mend it.
    public static func apns(
        key: String,
        keyID: String,
        teamID: String,
        topic: String,
        environment: APNsOptions.Environment,
        common: CommonBackendOptions = CommonBackendOptions()
    ) throws -> PushAccount {
        let credential = APNsOptions.Credential.key(try APNsAuthKey(pem: Secret(key)), keyID: keyID, teamID: teamID)
        var options = APNsOptions(credential: credential, topic: topic, environment: environment)
        options.common = common
        // A simulator's user must not manage channels at Apple by accident.
        if !common.address.isPlatform { options.managementEndpoint = nil }
        return .apns(options)
    }

    /// Returns the account that a simulator of Apple hands out.
    ///
    /// Throws for an account of another platform.
    public static func apns(_ simulated: SimulatedAccount) throws -> PushAccount {
        try .apns(
            key: simulated.field("key", of: "apns"),
            keyID: simulated.field("key_id", of: "apns"),
            teamID: simulated.field("team_id", of: "apns"),
            topic: simulated.field("topic", of: "apns"),
            environment: .production,
            common: simulated.common
        )
    }

    /// Returns an account with all options of the plugin.
    public static func apns(_ options: APNsOptions) -> PushAccount {
        PushAccount { context in try APNsBackend(options: options, context: context) }
    }
}
