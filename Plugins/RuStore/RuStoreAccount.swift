public import ChaparCore

extension PushAccount where Backend == RuStoreBackend {
    /// Returns a project's account at RuStore.
    ///
    /// - Parameters:
    ///   - projectID: The project's id in the RuStore console.
    ///   - serviceToken: The project's service token.
    ///   - mode: The API that messages go through, which follows from the SDK that the app is built with.
    ///   - common: The options that every backend has, such as the address of a relay or a simulator.
    /// - Returns: The account.
    public static func ruStore(
        projectID: String,
        serviceToken: Secret,
        mode: RuStoreOptions.Mode = .direct,
        common: CommonBackendOptions = CommonBackendOptions(timeout: .seconds(15))
    ) -> PushAccount {
        var options = RuStoreOptions(projectID: projectID, serviceToken: serviceToken, mode: mode)
        options.common = common
        return .ruStore(options)
    }

    /// Returns the account that a simulator of RuStore hands out.
    ///
    /// Throws for an account of another platform.
    public static func ruStore(_ simulated: SimulatedAccount) throws -> PushAccount {
        let mode = RuStoreOptions.Mode(rawValue: try simulated.field("mode", of: "rustore")) ?? .direct
        return .ruStore(
            projectID: try simulated.field("project_id", of: "rustore"),
            serviceToken: Secret(try simulated.field("service_token", of: "rustore")),
            mode: mode,
            common: simulated.common
        )
    }

    /// Returns an account with all options of the plugin.
    public static func ruStore(_ options: RuStoreOptions) -> PushAccount {
        PushAccount { context in try RuStoreBackend(options: options, context: context) }
    }
}
