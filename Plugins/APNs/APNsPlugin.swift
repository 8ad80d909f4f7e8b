public import ChaparCore
import ChaparOAuth

extension BackendFactory {
    /// Apple Push Notification service over HTTP/2.
    ///
    /// ## Configuration keys
    /// - `team_id`, `key_id` (string): The team's and the key's id, 10 characters each.
    /// - `key_file` (path) or `key` (secret, PEM): The `.p8` key.
    /// - `certificate_file`, `certificate_key_file` (path): A client certificate with its key, instead of the four
    ///   above.
    /// - `auth` (map, `kind: oauth2_refresh`): Access tokens that a relay before Apple wants, instead of all these;
    ///   needs `base_url`.
    /// - `topic` (string): The app's bundle id; a certificate with one topic brings it along.
    /// - `environment` (string, default `production`): `production`, or `development` (also written `sandbox`).
    /// - `port` (integer, default 443): 443 or 2197.
    /// - `broadcast_url`, `manage_url` (address): Where broadcasts are sent and channels managed, if not at Apple's
    ///   hosts.
    /// - and those of ``CommonBackendOptions``: `base_url`, `ca_file`, `timeout`, `proxy`, `max_connections`.
    public static let apns = BackendFactory(
        APNsBackend.kind,
        otherNames: ["apple", "ios", "apn"],
        summary: "Apple Push Notification service",
        reasons: APNsRejections.outcomes
    ) { section, context in
        let options = APNsOptions(section) { section, common in
            let base = HTTPBaseURL(common.address.endpoint(platform: APNsOptions.host(.production, 443)))
            return section.auth(for: AuthContext(base: base, common: common, context: context))
        }
        guard let options else { return nil }
        do throws(HTTPPoolError) {
            return try APNsBackend(options: options, context: context)
        } catch {
            section.reject("kind", "apns cannot be set up: \(error)")
            return nil
        }
    }
}
