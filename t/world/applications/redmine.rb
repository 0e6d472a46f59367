# Redmine, by its REST API: add a project with a subproject, issues, a relation and a comment.
# Prints what the API then lists.
this = ENV.fetch('ROUND')
Setting.rest_api_enabled = '1'
session = ActionDispatch::Integration::Session.new(Rails.application)
key = { 'X-Redmine-API-Key' => User.find_by_login('admin').api_key }
call = lambda do |method, path, body = nil|
  session.public_send(method, path, params: body && body.to_json, headers: key.merge('Content-Type' => 'application/json'))
  raise "#{path} #{body}: #{session.response.status} #{session.response.body[0, 500]}" unless session.response.successful?
  session.response.body.strip.empty? ? nil : JSON.parse(session.response.body)
end
trackers = call.(:get, '/trackers.json')['trackers'].map { |tracker| tracker['id'] }
project = call.(:post, '/projects.json', project: { name: "p#{this}", identifier: "p#{this}", tracker_ids: trackers })['project']['id']
sub = call.(:post, '/projects.json', project: { name: "s#{this}", identifier: "s#{this}", parent_id: project, tracker_ids: trackers })['project']['id']
issues = (1..10).map do |number|
  call.(:post, '/issues.json', issue: { project_id: number.odd? ? project : sub, subject: "issue #{number}" })['issue']['id']
end
call.(:post, "/issues/#{issues[0]}/relations.json", relation: { issue_to_id: issues[2], relation_type: 'relates' })
call.(:put, "/issues/#{issues[0]}.json", issue: { notes: 'a comment' })
journals = call.(:get, "/issues/#{issues[0]}.json?include=journals,relations")['issue']
puts "#{call.(:get, '/issues.json?limit=1')['total_count']} issues, #{call.(:get, '/projects.json')['total_count']} projects, " \
     "#{journals['journals'].size} comments, #{journals['relations'].size} relations"
