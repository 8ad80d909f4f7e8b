public import ChaparCore
import ChaparOAuth

extension BackendFactory {
    /// Huawei Push Kit over HTTPS.
    ///
    /// ## Configuration keys
    /// - `app_id` (string): The app's id: digits, as AppGallery Connect shows it.
    /// - `client_secret` (secret): The app's secret, for OAuth 2.0 client credentials.
    /// - `client_id` (string, default `app_id`): The id of the app's OAuth client; with `v3` messages are taken back by
    ///   it.
    /// - `service_account_file` (path): A service account's key file, instead of the two above; it signs a JWT.
    /// - `auth` (map, `kind: oauth2_refresh`): Any other access tokens that are refreshed instead.
    /// - `project_id` (string): The project's id; with it, or a service account, the v2 API is used.
    /// - `api` (string): `v1` or `v2`, when the choice above is not the wanted one; `v3` for HarmonyOS 5 and later,
    ///   which takes a service account only.
    /// - `badge_class` (string): The class of the app's first screen on Android, such as `com.example.MainActivity`:
    ///   goes with every badge, since Huawei finds the icon by it.
    /// - `default_category` (string, default `MARKETING`): With `v3`, the category of messages that name none of
    ///   Huawei's.
    /// - `token_url` (address): Where access tokens are fetched, if not at Huawei's; required beside `base_url`.
    /// - `batch_size` (integer, default 500): Recipients in one request, 1 to 1000.
    /// - `demote_without_right` (bool, default true): Send a message again with normal urgency when Huawei says that
    ///   the app has no right to urgent ones.
    /// - `ios_target_user_type` (string, default `formal`): `test`, `formal` or `voip`.
    /// - `receipts` (map): `user`, `secret`, `secret_encoding` (`base64` or `raw`), `id`: how delivery receipts are
    ///   signed.
    /// - `allow_broadcast` (bool, default false), `everyone_topics` (list): whether a message may go to topics and
    ///   conditions that reach every installation of the app, and which topics do.
    /// - and those of ``CommonBackendOptions``: `base_url`, `ca_file`, `timeout` (default 15), `proxy`,
    ///   `max_connections` (default 8).
    public static let hms = BackendFactory(
        HMSBackend.kind,
        otherNames: ["huawei", "hcm", "harmony"],
        summary: "Huawei Push Kit",
        reasons: HMSRejections.outcomes
    ) { section, context in
        let options = HMSOptions(section) { section, common in
            let base = HTTPBaseURL(common.address.endpoint(platform: HMSOptions.pushEndpoint))
            return section.auth(for: AuthContext(base: base, common: common, context: context))
        }
        guard let options else { return nil }
        do throws(HTTPPoolError) {
            return try HMSBackend(options: options, context: context)
        } catch {
            section.reject("kind", "hms cannot be set up: \(error)")
            return nil
        }
    }
}
