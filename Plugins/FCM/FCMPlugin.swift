public import ChaparCore
import ChaparOAuth

extension BackendFactory {
    /// Firebase Cloud Messaging over its HTTP v1 API.
    ///
    /// ## Configuration keys
    /// - `service_account_file` (path) or `service_account` (secret, JSON): A service account's key file.
    /// - `authorized_user_file` (path): A person's credential instead, for trying things out; needs `project_id`.
    /// - `auth` (map, `kind: oauth2_refresh`): Any other access tokens that are refreshed instead; needs `project_id`.
    /// - `project_id` (string): The Firebase project, when it is not the service account's own.
    /// - `analytics_label` (string): A label that all messages carry.
    /// - `iid_url` (address): Where tokens are looked up and topics joined, if not at Google's host.
    /// - `allow_broadcast` (bool, default false), `everyone_topics` (list): whether a message may go to topics and
    ///   conditions that reach every installation of the app, and which topics do.
    /// - and those of ``CommonBackendOptions``: `base_url`, `ca_file`, `timeout` (10 to 300 s, default 15), `proxy`,
    ///   `max_connections`.
    public static let fcm = BackendFactory(
        FCMBackend.kind,
        otherNames: ["firebase", "gcm", "google", "android"],
        summary: "Firebase Cloud Messaging, HTTP v1",
        reasons: FCMRejections.outcomes
    ) { section, context in
        let options = FCMOptions(section) { section, common in
            let base = HTTPBaseURL(common.address.endpoint(platform: FCMOptions.sendHost))
            return section.auth(for: AuthContext(base: base, common: common, context: context))
        }
        guard let options else { return nil }
        do throws(HTTPPoolError) {
            return try FCMBackend(options: options, context: context)
        } catch {
            section.reject("kind", "fcm cannot be set up: \(error)")
            return nil
        }
    }
}
