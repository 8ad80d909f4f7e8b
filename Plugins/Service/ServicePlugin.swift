public import ChaparCore
import ChaparOAuth

extension BackendFactory {
    /// A service of one's own, in any language, that speaks the contract of `ServiceBackend`.
    ///
    /// ## Configuration keys
    /// - `url` (address, required): where batches are posted to.
    /// - `secret` (required): signs every request, 24 bytes or more; `whsec_` and base64, or any text.
    /// - `previous_secret`: signs every request as well, while the service changes over to another `secret`.
    /// - `services` (list of token services, own ones as `x-name`), `recipients` (list of `device`, `user`,
    ///   `platform_id`, `topic`, `tags`, `everyone`): whom it can reach; at least one of the two.
    /// - `allow_broadcast` (`false`), `everyone_topics` (list): whether a message may go to every user of the service,
    ///   as `everyone` or by a topic that reaches all of them, and which topics do.
    /// - `auth` (map, `kind: oauth2_refresh`): access tokens that requests carry besides.
    /// - `batch_size` (1 to 1000, default 100): the most recipients in a request.
    /// - `max_message_bytes` (256 to 1048576, default 65536), `repeats_harm` (`false`).
    /// - and those of ``CommonBackendOptions`` but `base_url`.
    public static let service = BackendFactory(
        ServiceBackend.kind,
        otherNames: ["webhook", "service"],
        summary: "A service of your own over HTTP, in any language",
        reasons: ServiceRejections.outcomes
    ) { section, context in
        let options = ServiceOptions(section)
        let strategy = options.flatMap { options in
            section.auth(for: AuthContext(base: options.url, common: options.common, context: context))
        }
        section.allow("auth")
        guard let options, strategy != nil || !section.has("auth") else { return nil }
        do {
            return try ServiceBackend(options: options, strategy: strategy, context: context)
        } catch {
            section.reject("url", "cannot be used: \(error)")
            return nil
        }
    }
}
