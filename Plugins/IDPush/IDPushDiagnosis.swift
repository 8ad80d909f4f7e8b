import Foundation
public import ChaparCore

extension IDPushBackend {
    /// Examines OneSignal only: every route of IDPush writes.
    public func diagnose() async -> [Diagnosis] {
        guard let sender else {
            let fix = "Add onesignal: { app_id, api_key } to send."
            return [Diagnosis("onesignal", .warning, "The backend registers devices and cannot send.", fix: fix)]
        }
        return await sender.diagnose()
    }
}
