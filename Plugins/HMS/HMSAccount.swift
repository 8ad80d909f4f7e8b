public import ChaparCore

extension PushAccount where Backend == HMSBackend {
    /// Returns an account at Huawei.
    ///
    /// - Parameters:
    ///   - credential: The sender's credential: a client's id and secret, a service account, or a strategy of your own.
    ///   - api: The generation of the send API, with the id of the app or of the project.
    ///   - common: The options that every backend has, such as the address of a relay or a simulator.
    /// - Returns: The account.
    public static func hms(
        credential: HMSOptions.Credential,
        api: HMSOptions.API,
        common: CommonBackendOptions = CommonBackendOptions(timeout: .seconds(15), maximumConnections: 8)
    ) -> PushAccount {
        var options = HMSOptions(credential: credential, api: api)
        options.common = common
        return .hms(options)
    }

    /// Returns the account that a simulator of Huawei hands out.
    ///
    /// Throws for an account of another platform.
    public static func hms(_ simulated: SimulatedAccount) throws -> PushAccount {
        let id = try simulated.field("app_id", of: "hms")
        let secret = Secret(try simulated.field("client_secret", of: "hms"))
        var options = HMSOptions(credential: .client(id: id, secret: secret), api: .v1(appID: id))
        options.common = simulated.common
        options.tokenEndpoint = try HTTPEndpoint(simulated.field("token_url", of: "hms"))
        return .hms(options)
    }

    /// Returns an account with all options of the plugin.
    public static func hms(_ options: HMSOptions) -> PushAccount {
        PushAccount { context in try HMSBackend(options: options, context: context) }
    }
}
