public import ChaparCore

extension PushAccount where Backend == WebPushBackend {
    /// Returns a sender to browsers, by its VAPID keys.
    ///
    /// - Parameters:
    ///   - keys: The VAPID keys, at least one: the first is that of new subscriptions, the others reach older ones.
    ///   - subject: The contact of the sender: `mailto:ops@example.com`, or an `https:` address.
    ///   - common: Trust, deadline, proxy and connections.
    /// - Returns: The account.
    public static func webPush(
        keys: [WebPushKey],
        subject: String,
        common: CommonBackendOptions = CommonBackendOptions(maximumConnections: 2)
    ) -> PushAccount {
        var options = WebPushOptions(keys: keys, subject: subject)
        options.common = common
        return .webPush(options)
    }

    /// Returns the account that a simulator of push services hands out; it sends to the simulator's services only.
    ///
    /// Throws for an account of another platform.
    public static func webPush(_ simulated: SimulatedAccount) throws -> PushAccount {
        let key = try WebPushKey(Secret(try simulated.field("vapid_key", of: "webpush")))
        var options = WebPushOptions(keys: [key], subject: try simulated.field("subject", of: "webpush"))
        options.common = simulated.common
        let hosts = try simulated.field("allow_hosts", of: "webpush")
        try options.allow(hosts: hosts.split(separator: " ").map(String.init))
        return .webPush(options)
    }

    /// Returns an account with all options of the plugin.
    public static func webPush(_ options: WebPushOptions) -> PushAccount {
        PushAccount { context in WebPushBackend(options: options, context: context) }
    }
}
