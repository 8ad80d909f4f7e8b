public import ChaparCore
import ChaparOAuth

extension BackendFactory {
    /// Chabok over its REST API.
    ///
    /// ## Configuration keys
    /// - `environment` (`sandbox` or `production`, required): a wrong guess would send to real users.
    /// - `app_id` (a host-name label; required in production), `access_token` (secret), unless `auth` (map, `kind:
    ///   oauth2_refresh`) stands in its place.
    /// - `token_placement` (`header`, `query`, `both`), `default_mechanism` (`message`, `notification`, `smart`),
    ///   `default_channel` (`default`), `app_name`: the title of notifications that have none.
    /// - `display` (map): how the app sets its clients up, for what answers to clicks say that was shown: `silent`
    ///   (false: nothing is shown), `channels` (map from a channel's name to `alert` (true) and `sound` (a file; empty
    ///   for silence)).
    /// - `fallback` (map, for `smart`): `media` (`sms` or `email`), `delay` (seconds), `content`.
    /// - `allow_broadcast` (false), `everyone_topics` (list): whether a message may go to every user of the app, and
    ///   which channels reach all of them beside `default_channel`.
    /// - `strict` (false: what Chabok cannot express is a warning, else an error),
    ///   `resend_ambiguous` (false), `max_attempts` (3, for calls that are no sends), `rate_per_second` (10 requests),
    ///   `user_id_min_length` (1), `empty_target_as_string` (false), `forward_clicks` (false),
    ///   `probe_interval` (60 s, 0 is off), `webhook_secret` (secret).
    /// - and those of ``CommonBackendOptions``, where `base_url` may have a path; `timeout` is 15 s by default.
    public static let chabok = BackendFactory(
        ChabokBackend.kind,
        summary: "Chabok",
        reasons: ChabokRejections.outcomes
    ) { section, context in
        let options = ChabokOptions(section)
        let strategy = options.flatMap { options in
            section.auth(for: AuthContext(base: options.base, common: options.common, context: context))
        }
        guard let options, strategy != nil || !section.has("auth") else { return nil }
        do throws(HTTPPoolError) {
            return try ChabokBackend(options: options, strategy: strategy, context: context)
        } catch {
            section.reject("kind", "chabok cannot be set up: \(error)")
            return nil
        }
    }
}
