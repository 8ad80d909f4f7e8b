public import ChaparCore
import ChaparOAuth
public import ChaparOneSignalDevices

extension BackendFactory {
    /// OneSignal over its REST API.
    ///
    /// ## Configuration keys
    /// - `app_id` (UUID, required); `api_key` (secret) or `api_key_file` (path), unless `auth` stands in their place.
    /// - `auth_scheme` (`auto`, `key`, `basic`), `device_api` (`users`, `players`).
    /// - `environment` (`production`, `development`, `ad_hoc`): for iOS tokens of devices that do not say.
    /// - `batch_size` (1 to 20000; 2000 with `players`), `everyone_segment` (`All`), `allow_raw_tokens`,
    ///   `schedule_on_platform`, `reconcile` (`off`, `counts`), `max_messages_per_15min`, `request_limit` (a second,
    ///   150).
    /// - `allow_broadcast` (bool, default false), `everyone_topics` (list): whether a message may go to every user of
    ///   the app, and which segments hold all of them beside `everyone_segment`, `All` and those that OneSignal gives
    ///   an app.
    /// - and those of ``CommonBackendOptions``, where `base_url` may have a path.
    public static let oneSignal = BackendFactory(
        OneSignalBackend.kind,
        summary: "OneSignal",
        reasons: OneSignalRejections.outcomes
    ) { section, context in
        let options = OneSignalOptions(section)
        let strategy = options.flatMap { options in
            section.auth(for: AuthContext(base: options.base, common: options.common, context: context))
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

extension OneSignalSenderFactory {
    /// OneSignal as the sender of another plugin that registers devices with it.
    ///
    /// The keys of `BackendFactory.oneSignal`, without `auth`.
    public static let oneSignal = OneSignalSenderFactory { section in
        guard let options = OneSignalOptions(section) else { return nil }
        return { context, players throws(HTTPPoolError) in
            try OneSignalBackend(options: options, players: players, context: context)
        }
    }
}
