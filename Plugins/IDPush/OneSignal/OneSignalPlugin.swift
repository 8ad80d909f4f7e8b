public import PushCore
import PushOAuth

extension BackendFactory {
    /// OneSignal over its REST API.
    ///
    /// ## Configuration keys
    /// - `app_id` (UUID, required); `api_key` (secret) or `api_key_file` (path), unless `auth` stands in their place.
    /// - `auth_scheme` (`auto`, `key`, `basic`), `device_api` (`users`, `players`).
    /// - `environment` (`production`, `development`, `ad_hoc`): for iOS tokens of devices that do not say.
    /// - `batch_size` (1 to 20000; 2000 with `players`), `everyone_segment` (`All`), `allow_raw_tokens`,
    ///   `schedule_on_platform`, `reconcile` (`off`, `counts`), `max_messages_per_15min`, `request_limit` (a second, 150).
    /// - and those of ``CommonBackendOptions``, where `base_url` may have a path.
    public static let oneSignal = BackendFactory(OneSignalBackend.kind, summary: "OneSignal") { section, context in
        let options = OneSignalOptions(section)
        let strategy = options.flatMap { options in
            section.auth(for: AuthSite(base: options.base, common: options.common, context: context))
        }
        guard let options, strategy != nil || !section.holdsMap("auth") else { return nil }
        do throws(HTTPPoolError) {
            return try OneSignalBackend(options: options, strategy: strategy, context: context)
        } catch {
            section.reject("kind", "onesignal cannot be set up: \(error)")
            return nil
        }
    }
}
