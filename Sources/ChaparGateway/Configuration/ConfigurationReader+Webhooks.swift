internal import ChaparCore
internal import ChaparDelivery

extension ConfigurationReader {
    /// Reads the section `webhooks`.
    func webhooks(_ section: ConfigSection) -> GatewayConfiguration.Webhooks {
        var webhooks = GatewayConfiguration.Webhooks()
        webhooks.feedbackURL = section.string("feedback_url")
        if let address = webhooks.feedbackURL {
            do throws(WebhookURL.Mistake) {
                _ = try WebhookURL(address)
            } catch {
                section.reject("feedback_url", "is no address for webhooks", fix: error.detail)
            }
        }
        webhooks.feedbackSecret = section.secret("feedback_secret")
        if let secret = webhooks.feedbackSecret {
            if WebhookSecret(secret) == nil {
                section.reject(
                    "feedback_secret",
                    "is no key of Standard Webhooks",
                    fix: "Write whsec_ and 24 to 64 random octets in standard base64."
                )
            }
            if webhooks.feedbackURL == nil {
                section.reject("feedback_secret", "means nothing without feedback_url", fix: "Leave it out.")
            }
        }
        webhooks.allowedNetworks = section.strings("allow_networks") ?? []
        for text in webhooks.allowedNetworks where WebhookNetwork(text) == nil {
            section.reject(
                "allow_networks",
                "\"\(text)\" is no network",
                fix: "Write addresses or networks, such as 10.0.0.5 or 10.0.0.0/8."
            )
        }
        for text in section.strings("allow_ports") ?? [] {
            if let port = Int(text), (1...65_535).contains(port) {
                webhooks.allowedPorts.append(port)
            } else {
                section.reject("allow_ports", "\"\(text)\" is no port", fix: "Write numbers from 1 to 65535.")
            }
        }
        webhooks.trust = section.certificates("ca_file")
        section.finish()
        return webhooks
    }
}
