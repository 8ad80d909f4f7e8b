internal import ChaparCore

/// The checks of a notification that need no push service: made before acceptance and, for faults only, again before
/// sending.
enum WebPushCheck {
    /// The number of octets of plaintext that Firefox on Android certainly takes: its messages pass through another
    /// service.
    static let safeBytes = 2_600

    /// Finds the faults and warnings of a notification.
    static func examine(_ payload: WebPushPayload) -> PayloadCheck {
        let notification = payload.notification
        var check = PayloadCheck(faults: faults(payload))
        guard check.faults.isEmpty else { return check }
        if !notification.isSilent { check.warnings = warnings(payload) }
        let largest = notification.languages.map { payload.encoded(in: $0).bytes.count }.max() ?? 0
        if largest > WebPushEncryption.maximumPlaintext {
            check.faults.append(WebPushPayload.tooLarge(largest))
        } else if largest > safeBytes {
            let detail =
                "The message has \(largest) bytes: Firefox on Android may not take more than \(safeBytes)."
            check.warnings.append(Finding(pointer: "#/content", code: "large", detail: detail))
        }
        return check
    }

    /// Finds everything that a push service or a browser would refuse, except the size.
    static func faults(_ payload: WebPushPayload) -> [Finding] {
        let notification = payload.notification
        var faults = payload.overrides.faults
        func fault(_ pointer: String, _ code: String, _ detail: String) {
            faults.append(Finding(pointer: "#/\(pointer)", code: code, detail: detail))
        }
        if notification.isSilent {
            guard !payload.settings.allowsSilent else { return faults }
            fault(
                "options/silent",
                "silent_not_allowed",
                "Browsers must show something for every message: Safari revokes the permission otherwise. "
                    + "Leave silent out; allow_silent of the backend is for apps of UnifiedPush."
            )
            return faults
        }
        let own = payload.overrides.notification
        if notification.title == nil, notification.body == nil, own["title"] == nil, own["body"] == nil {
            fault("content", "nothing_to_show", "Browsers must show something for every message: give a title or body.")
        }
        if let collapseID = notification.collapseID, collapseID.isEmpty {
            fault("options/collapse_id", "bad_collapse_id", "The collapse id is empty: leave it out instead.")
        }
        return faults
    }

    private static func warnings(_ payload: WebPushPayload) -> [Finding] {
        let notification = payload.notification
        var warnings: [Finding] = []
        func warn(_ pointer: String, _ code: String, _ detail: String) {
            warnings.append(Finding(pointer: "#/\(pointer)", code: code, detail: detail))
        }
        if notification.subtitle != nil { warn("content/subtitle", "dropped", "Browsers have no subtitle.") }
        if notification.category != nil { warn("content/category", "dropped", "Browsers have no categories.") }
        if let sound = notification.sound, sound != "default" {
            warn("content/sound", "dropped", "Browsers have no sounds of a site's own.")
        }
        if payload.overrides.isDeclarative ?? payload.settings.isDeclarative, !payload.isDeclarative {
            warn(
                "content/click_url",
                "needs_service_worker",
                "Without an absolute address to open, a browser shows it only through the page's service worker: "
                    + "give click_url, or navigate in the backend's section."
            )
        }
        return warnings
    }
}
