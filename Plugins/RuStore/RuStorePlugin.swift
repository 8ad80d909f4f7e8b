public import ChaparCore
import ChaparOAuth

extension BackendFactory {
    /// RuStore's push service (VK), over its direct or its universal API.
    ///
    /// ## Configuration keys
    /// - `project_id` (string, required): The project of the RuStore console, page Push notifications, Projects.
    /// - `service_token` (secret, required unless `auth` stands in its place): The project's service token.
    /// - `mode` (`direct`, `universal`; default `direct`): Which of RuStore's two SDKs the app is built with.
    /// - `auth` (map, `kind: oauth2_refresh`): Access tokens of a relay in front of RuStore; with `mode: direct` only.
    /// - `http_version` (1 or 2, default 2): The protocol of the connections.
    /// - `allow_broadcast` (bool, default false), `everyone_topics` (list): whether a message may go to topics that
    ///   reach every installation of the app, and which topics do; with `mode: universal` only.
    /// - and those of ``CommonBackendOptions``: `base_url`, `ca_file`, `timeout` (default 15), `proxy`,
    ///   `max_connections`.
    public static let ruStore = BackendFactory(
        RuStoreBackend.kind,
        otherNames: ["vkpns", "vk"],
        summary: "RuStore push notifications",
        reasons: RuStoreRejections.outcomes
    ) { section, context in
        let options = RuStoreOptions(section)
        let strategy = options.flatMap { options in
            let base = HTTPBaseURL(options.endpoint)
            return section.auth(for: AuthContext(base: base, common: options.common, context: context))
        }
        guard let options, strategy != nil || !section.has("auth") else { return nil }
        do throws(HTTPPoolError) {
            return try RuStoreBackend(options: options, strategy: strategy, context: context)
        } catch {
            section.reject("kind", "rustore cannot be set up: \(error)")
            return nil
        }
    }
}
