import Foundation
public import ChaparCore

extension AltcraftBackend {
    /// Examines only settings that need no profile, since each call of Altcraft names one.
    public func diagnose() async -> [Diagnosis] {
        var findings: [Diagnosis] = []
        if campaign == nil {
            let fix = "Add campaign: { url, api_token, trigger_id } to send through a trigger campaign."
            findings.append(
                Diagnosis("campaign", .warning, "The backend keeps subscriptions and cannot send.", fix: fix)
            )
        }
        if let failure = client.pool.status.lastConnectFailure {
            findings.append(
                Diagnosis("reachability", .failure, failure.detail, fix: "Check api_url and the network path.")
            )
        }
        if let failure = campaign?.status.lastConnectFailure {
            findings.append(
                Diagnosis("reachability", .failure, failure.detail, fix: "Check campaign.url and the network path.")
            )
        }
        return findings
    }
}
