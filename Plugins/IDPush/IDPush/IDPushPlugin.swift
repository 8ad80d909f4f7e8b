import Foundation
internal import Logging
public import PushCore
import PushOAuth

extension BackendFactory {
    /// IDPush: registers devices with OneSignal from networks that OneSignal refuses.
    ///
    /// ## Configuration keys
    /// - `project_id` (secret, required): The id that IDPush's panel gives.
    /// - `environment` (`production`, `development`, `ad_hoc`): for tokens of devices that do not say.
    /// - `onesignal` (map): The keys of ``oneSignal`` for the app that the project stands for; without it nothing is sent.
    /// - and those of ``CommonBackendOptions``, where `base_url` may have a path.
    public static let idPush = BackendFactory(IDPushBackend.kind, summary: "IDPush, a way to OneSignal") {
        section,
        context in
        guard let options = IDPushOptions(section) else {
            _ = section.section("onesignal").flatMap { OneSignalOptions($0) }
            return nil
        }
        var oneSignal: OneSignalOptions?
        if let own = section.section("onesignal") {
            oneSignal = OneSignalOptions(own)
            own.finish()
            guard oneSignal != nil else { return nil }
        } else {
            context.logger.warning("the backend registers devices and cannot send: it has no onesignal section")
        }
        let site = AuthSite(base: options.base, common: options.common, context: context)
        let strategy = section.auth(for: site)
        guard strategy != nil || !section.holdsMap("auth") else { return nil }
        do throws(HTTPPoolError) {
            return try IDPushBackend(options: options, oneSignal: oneSignal, strategy: strategy, context: context)
        } catch {
            section.reject("kind", "idpush cannot be set up: \(error)")
            return nil
        }
    }
}

extension IDPushOptions {
    /// Reads a section; nil after reporting everything that is wrong with it.
    init?(_ section: ConfigSection) {
        let before = section.report.issues.count
        let projectID = section.secret("project_id")
        if projectID == nil, !section.has("project_id") {
            section.missing("project_id", "the id that IDPush's panel gives")
        }
        self.init(projectID: projectID ?? Secret(""))
        environment = section.choice("environment", default: .production)
        (common, base) = section.connection(default: IDPushClient.address, connections: 4, timeout: .seconds(30))
        guard section.report.issues.count == before else { return nil }
    }
}
