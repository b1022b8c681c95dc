"""The Java client as others get it: installed from its packed artifact into an empty project."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.java import IN_ONE_PROCESS, MAVEN, REPOSITORY, SDK, building, environment, need_maven

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), IN_ONE_PROCESS]

#: For a test in the project of the README: plugins, JUnit and Gson in versions that Maven has fetched for the client.
ADDED = """
  <dependencyManagement>
    <dependencies>
      <dependency>
        <groupId>com.google.code.gson</groupId>
        <artifactId>gson</artifactId>
        <version>{gson}</version>
      </dependency>
    </dependencies>
  </dependencyManagement>
  <build>
    <plugins>
      {plugins}
    </plugins>
  </build>
"""
JUNIT = """
    <dependency>
      <groupId>org.junit.jupiter</groupId>
      <artifactId>junit-jupiter</artifactId>
      <version>{junit}</version>
      <scope>test</scope>
    </dependency>
"""
PROGRAM = """import io.flotilla.client.Client;
import org.junit.jupiter.api.Test;

class MainTest {
  @Test
  void theClientIsThere() {
    try (var client = new Client("127.0.0.1:7650")) {
      System.out.println("fine: " + client.getClass().getProtectionDomain().getCodeSource().getLocation());
    }
  }
}
"""


def run_maven(folder: Path, repository: Path, *arguments: str) -> str:
    command = [*MAVEN, f"-Dmaven.repo.local={repository}", *arguments]
    with building():
        done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def linked_repository(folder: Path) -> Path:
    """A local repository with everything that the usual one has, except this client."""
    (folder / "io").mkdir(parents=True)
    for each in [*REPOSITORY.iterdir(), *(REPOSITORY / "io").iterdir()]:
        if each.is_dir() and each.name not in ("io", "flotilla"):
            (folder / each.relative_to(REPOSITORY)).symlink_to(each)
    return folder


def test_artifact_installs_into_an_empty_project(tmp_path: Path) -> None:
    need_maven()
    repository = linked_repository(tmp_path / "repository")
    run_maven(SDK, repository, "install", "-Dmaven.test.skip=true")
    pom = (SDK / "pom.xml").read_text("utf-8")
    plugins = re.findall(r"<plugin>\s*<groupId>org.apache.maven.plugins.*?</plugin>", pom, re.DOTALL)
    (junit,) = re.findall(r"<junit.version>([^<]+)</junit.version>", pom)
    (gson,) = re.findall(r"<artifactId>gson</artifactId>\s*<version>([^<]+)</version>", pom)
    readme = (SDK / "README.md").read_text("utf-8")
    (own_pom,) = re.findall(r"```xml\n(.*?)```", readme, re.DOTALL)
    (program,) = re.findall(r"```java\n(import .*?)```", readme, re.DOTALL)
    before, dependencies, after = own_pom.partition("  </dependencies>\n")
    added = ADDED.format(gson=gson, plugins="\n".join(plugins))
    project = tmp_path / "project"
    for kind, name, text in (("main", "Main", program), ("test", "MainTest", PROGRAM)):
        folder = project / "src" / kind / "java"
        folder.mkdir(parents=True)
        (folder / f"{name}.java").write_text(text, "utf-8")
    (project / "pom.xml").write_text(before + JUNIT.format(junit=junit) + dependencies + added + after, "utf-8")
    # In Maven's own JVM: another one would take longer to start than the test.
    printed = run_maven(project, repository, "test", "-DforkCount=0")
    assert f"fine: file:{repository}/io/flotilla/flotilla-client/" in printed
