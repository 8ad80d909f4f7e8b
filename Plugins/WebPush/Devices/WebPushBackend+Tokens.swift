public import ChaparCore

extension WebPushBackend {
    /// Returns the subscription in its canonical form: `endpoint`, `keys.p256dh`, `keys.auth`, without blanks.
    ///
    /// Refuses a point that is not on the curve, and a host that ``WebPushOptions/allow(hosts:)`` does not allow.
    public func checked(_ token: DeviceToken) throws(InvalidToken) -> DeviceToken {
        do throws(WebPushSubscription.Mistake) {
            let subscription = try WebPushSubscription(token.value)
            _ = try options.hosts.trust(in: subscription.address.endpoint)
            if subscription.hasEnded(at: time.now) {
                throw .init(problem: "the browser has ended the subscription (expirationTime)")
            }
            return DeviceToken(subscription.text, service: .webPush)
        } catch {
            throw InvalidToken(.webPush, error.problem)
        }
    }
}
