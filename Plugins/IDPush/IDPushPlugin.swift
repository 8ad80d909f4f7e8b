internal import Logging
public import ChaparCore
import ChaparOAuth
public import ChaparOneSignalDevices

extension BackendFactory {
    /// IDPush: registers devices with OneSignal from networks that OneSignal refuses.
    ///
    /// ## Configuration keys
    /// - `project_id` (secret, required): The id that IDPush's panel gives.
    /// - `environment` (`production`, `development`, `ad_hoc`): for tokens of devices that do not say.
    /// - `onesignal` (map): the keys of `sender` for the app that the project stands for; without it nothing is sent.
    /// - and those of ``CommonBackendOptions``, where `base_url` may have a path.
    ///
    /// - Parameter sender: Reads `onesignal` and sends, such as `.oneSignal` of `ChaparOneSignal`. Without it the key
    ///   is unknown, and backends only register devices.
    /// - Returns: The factory.
    public static func idPush(sender: OneSignalSenderFactory? = nil) -> BackendFactory {
        BackendFactory(IDPushBackend.kind, summary: "IDPush, a way to OneSignal") { section, context in
            let options = IDPushOptions(section)
            section.allow("allow_broadcast")
            if section.has("allow_broadcast") {
                section.reject(
                    "allow_broadcast",
                    "is for the OneSignal app that sends",
                    fix: "Write it under onesignal, beside app_id."
                )
            }
            var own: OneSignalSender?
            if let sender, let nested = section.section("onesignal") {
                own = sender.read(nested)
                nested.finish()
                guard own != nil else { return nil }
            } else if options != nil {
                context.logger.warning("the backend registers devices and cannot send: it has no onesignal section")
            }
            guard let options else { return nil }
            let site = AuthContext(base: options.base, common: options.common, context: context)
            let strategy = section.auth(for: site)
            guard strategy != nil || !section.holdsMap("auth") else { return nil }
            do throws(HTTPPoolError) {
                return try IDPushBackend(options: options, strategy: strategy, context: context, sender: own)
            } catch {
                section.reject("kind", "idpush cannot be set up: \(error)")
                return nil
            }
        }
    }
}
