internal import ChaparCore

/// The way of a request to an endpoint: ``WebhookClient``, which uses the network, or a simulation's.
package protocol WebhookTransport: Sendable {
    /// Checks an address as an attempt would; nil when it may be used.
    func check(_ url: WebhookURL, _ rule: WebhookGuard) async -> WebhookURL.Mistake?

    /// Sends a request once, and returns its end within a deadline; a cancelled task ends it without an answer.
    func post(
        _ url: WebhookURL,
        headers: [(String, String)],
        body: [UInt8],
        _ rule: WebhookGuard
    ) async -> WebhookAnswer
}

extension WebhookClient: WebhookTransport {}
