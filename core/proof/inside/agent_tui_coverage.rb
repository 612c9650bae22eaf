# Records the lines of the changed files that Ruby executes, for the proof of changes. RUBYOPT loads it in each process.
#
# It needs no library besides `coverage`, so that it changes nothing which tests may look at. There is one counter in a
# process: if the project wants it for itself, as SimpleCov does, it gets it, and nothing is recorded.

require "coverage"

module AgentTuiCoverage
  class << self
    attr_accessor :names
  end

  def self.give_way
    self.names = []
    Coverage.result if Coverage.running?
  end

  def start(*)
    AgentTuiCoverage.give_way unless AgentTuiCoverage.names.empty?
    super
  end

  def setup(*)
    AgentTuiCoverage.give_way unless AgentTuiCoverage.names.empty?
    super
  end

  def self.write(directory)
    rows = Coverage.peek_result.select { |path, _| names.include?(path) }.map do |path, result|
      "#{path}\t#{result[:lines].map { |count| count.nil? ? "-" : count }.join(",")}\n"
    end
    target = File.join(directory, "ruby-#{Process.pid}")
    File.binwrite("#{target}.part", rows.join)
    File.rename("#{target}.part", "#{target}.lines")
  end

  def self.begin(directory)
    self.names = File.binread(File.join(directory, "files.json")).scan(/"([^"\\]+)"/).flatten
    return if names.empty? || Coverage.running?

    Coverage.start(lines: true)
    Coverage.singleton_class.prepend(self)
    at_exit { write(directory) unless names.empty? }
  rescue SystemCallError
    self.names = [] # there is nothing to record into
  end
end

AgentTuiCoverage.begin(ENV["AGENT_TUI_RECORD"]) if ENV["AGENT_TUI_RECORD"]
